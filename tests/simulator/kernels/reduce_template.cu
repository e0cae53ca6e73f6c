// The block's size is a template parameter, so that the compiler drops the steps it does not need.
template <unsigned int SIZE>
__global__ void reduce_template(const int* in, int* out, unsigned int n) {
    __shared__ int s[SIZE];
    unsigned int tid = threadIdx.x;
    int sum = 0;
    for (unsigned int i = blockIdx.x * SIZE + tid; i < n; i += SIZE * gridDim.x) sum += in[i];
    s[tid] = sum;
    __syncthreads();
    if (SIZE >= 256) {
        if (tid < 128) s[tid] += s[tid + 128];
        __syncthreads();
    }
    if (SIZE >= 128) {
        if (tid < 64) s[tid] += s[tid + 64];
        __syncthreads();
    }
    if (tid < 32) {
        sum = s[tid] + s[tid + 32];
        for (int mask = 16; mask > 0; mask >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
        if (tid == 0) out[blockIdx.x] = sum;
    }
}
