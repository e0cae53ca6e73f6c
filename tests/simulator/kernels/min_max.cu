// Two arrays carved from one dynamic allocation.
__global__ void min_max(const float* in, float* lowest, float* highest, int n) {
    extern __shared__ float memory[];
    float* low = memory;
    float* high = memory + blockDim.x;
    int tid = threadIdx.x;
    float l = 3.0e38f, h = -3.0e38f;
    for (int i = blockIdx.x * blockDim.x + tid; i < n; i += blockDim.x * gridDim.x) {
        l = fminf(l, in[i]);
        h = fmaxf(h, in[i]);
    }
    low[tid] = l;
    high[tid] = h;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) {
            low[tid] = fminf(low[tid], low[tid + s]);
            high[tid] = fmaxf(high[tid], high[tid + s]);
        }
        __syncthreads();
    }
    if (tid == 0) {
        lowest[blockIdx.x] = low[0];
        highest[blockIdx.x] = high[0];
    }
}
