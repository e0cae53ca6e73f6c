// Normalises rows by Welford's mean and variance, in structures that are combined in pairs.
struct Stats {
    float mean;
    float m2;
    int count;
};

__device__ Stats combine(Stats a, Stats b) {
    int count = a.count + b.count;
    if (count == 0) return a;
    float delta = b.mean - a.mean;
    Stats c;
    c.count = count;
    c.mean = a.mean + delta * b.count / count;
    c.m2 = a.m2 + b.m2 + delta * delta * a.count * b.count / count;
    return c;
}

__global__ void welford_rows(const float* x, float* y, int columns, float epsilon) {
    __shared__ Stats parts[2];
    int t = threadIdx.x;
    const float* in = x + blockIdx.x * columns;
    Stats mine = {0.0f, 0.0f, 0};
    for (int j = t; j < columns; j += blockDim.x) {
        Stats one = {in[j], 0.0f, 1};
        mine = combine(mine, one);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        Stats other;
        other.mean = __shfl_xor_sync(0xffffffffu, mine.mean, offset);
        other.m2 = __shfl_xor_sync(0xffffffffu, mine.m2, offset);
        other.count = __shfl_xor_sync(0xffffffffu, mine.count, offset);
        mine = combine(mine, other);
    }
    if (t % 32 == 0) parts[t / 32] = mine;
    __syncthreads();
    Stats all = combine(parts[0], parts[1]);
    float scale = rsqrtf(all.m2 / all.count + epsilon);
    for (int j = t; j < columns; j += blockDim.x) {
        y[blockIdx.x * columns + j] = (in[j] - all.mean) * scale;
    }
}
