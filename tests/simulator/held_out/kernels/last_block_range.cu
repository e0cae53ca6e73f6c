// Smallest and largest number: each block stores its two, and the block that is done last goes through them.
__device__ unsigned done = 0;

__global__ void last_block_range(const int* x, int2* parts, int* range, int n) {
    __shared__ int low, high;
    __shared__ bool last;
    if (threadIdx.x == 0) {
        low = 0x7fffffff;
        high = -0x7fffffff;
    }
    __syncthreads();  // both are set
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicMin(&low, x[i]);
        atomicMax(&high, x[i]);
    }
    __syncthreads();  // the block has its two
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = make_int2(low, high);
        __threadfence();
        last = atomicInc(&done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();  // who is last is known
    if (last && threadIdx.x == 0) {
        __threadfence();
        for (int b = 0; b < gridDim.x; b++) {
            int2 part = parts[b];
            low = min(low, part.x);
            high = max(high, part.y);
        }
        range[0] = low;
        range[1] = high;
    }
}
