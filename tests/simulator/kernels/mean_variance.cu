// Welford's update, merged in a tree of structs.
struct Moments {
    float count, mean, m2;
};

__device__ Moments merged(const Moments& a, const Moments& b) {
    float count = a.count + b.count;
    if (count == 0.0f) return {0.0f, 0.0f, 0.0f};
    float delta = b.mean - a.mean;
    return {count, a.mean + delta * b.count / count, a.m2 + b.m2 + delta * delta * a.count * b.count / count};
}

__global__ void mean_variance(const float* in, float* out, int n) {
    __shared__ Moments shared[64];
    Moments mine = {0.0f, 0.0f, 0.0f};
    for (int i = threadIdx.x; i < n; i += 64) {
        mine.count += 1.0f;
        float delta = in[i] - mine.mean;
        mine.mean += delta / mine.count;
        mine.m2 += delta * (in[i] - mine.mean);
    }
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int s = 32; s > 0; s /= 2) {
        if (threadIdx.x < s) shared[threadIdx.x] = merged(shared[threadIdx.x], shared[threadIdx.x + s]);
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        out[0] = shared[0].mean;
        out[1] = shared[0].m2 / shared[0].count;
    }
}
