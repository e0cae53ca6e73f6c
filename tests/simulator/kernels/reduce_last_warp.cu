// The last warp needs no barrier of the block, but __syncwarp between reads and writes.
__device__ void finish(float* s, int tid) {
    float v = s[tid];
    for (int offset = 32; offset > 0; offset >>= 1) {
        v += s[tid + offset];
        __syncwarp();
        s[tid] = v;
        __syncwarp();
    }
}

__global__ void reduce_last_warp(const float* in, float* out, int n) {
    __shared__ float s[256];
    int tid = threadIdx.x;
    int i = blockIdx.x * (2 * blockDim.x) + tid;
    float sum = 0.0f;
    if (i < n) sum = in[i];
    if (i + blockDim.x < n) sum += in[i + blockDim.x];
    s[tid] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 32; half >>= 1) {
        if (tid < half) s[tid] += s[tid + half];
        __syncthreads();
    }
    if (tid < 32) finish(s, tid);
    if (tid == 0) out[blockIdx.x] = s[0];
}
