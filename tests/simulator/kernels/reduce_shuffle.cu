// Warps reduce by shuffles, and the first warp reduces their sums.
__inline__ __device__ float warp_sum(float v) {
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}

__global__ void reduce_shuffle(const float* in, float* out, int n) {
    __shared__ float warps[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    int lane = threadIdx.x % 32;
    int warp = threadIdx.x / 32;
    sum = warp_sum(sum);
    if (lane == 0) warps[warp] = sum;
    __syncthreads();
    sum = threadIdx.x < blockDim.x / 32 ? warps[lane] : 0.0f;
    if (warp == 0) sum = warp_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
