// A block a row; mean and variance by shuffles and shared memory.
__device__ float block_sum(float v, float* shared) {
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffff, v, offset);
    __syncthreads();   // the last call's sums have been read
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    float total = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) total += shared[w];
    return total;
}

__global__ void layernorm(const float* x, const float* gamma, const float* beta, float* y, int cols) {
    __shared__ float sums[32];
    const float* row = x + (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += row[i];
    float mean = block_sum(sum, sums) / cols;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float d = row[i] - mean;
        squares += d * d;
    }
    float scale = rsqrtf(block_sum(squares, sums) / cols + 1e-5f);
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        y[(size_t)blockIdx.x * cols + i] = (row[i] - mean) * scale * gamma[i] + beta[i];
    }
}
