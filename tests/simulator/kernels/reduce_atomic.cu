// One atomic a block.
__global__ void reduce_atomic(const int* in, int* total, int n) {
    __shared__ int block_total;
    if (threadIdx.x == 0) block_total = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&block_total, in[i]);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(total, block_total);
}
