// The nearest point of each query: distance and index in 64 bits, of which the least is kept.
__global__ void nearest_points(const float2* points, const float2* queries, unsigned long long* best, int n, int q) {
    __shared__ float2 tile[64];
    int first = blockIdx.x * 64;
    int count = min(64, n - first);
    if (threadIdx.x < count) tile[threadIdx.x] = points[first + threadIdx.x];
    __syncthreads();
    for (int j = threadIdx.x; j < q; j += blockDim.x) {
        float2 me = queries[j];
        unsigned long long mine = ~0ull;
        for (int i = 0; i < count; ++i) {
            float dx = tile[i].x - me.x;
            float dy = tile[i].y - me.y;
            unsigned distance = __float_as_uint(dx * dx + dy * dy);
            unsigned long long key = (unsigned long long)distance << 32 | (unsigned)(first + i);
            if (key < mine) mine = key;
        }
        atomicMin(&best[j], mine);
    }
}
