// __syncthreads_count counts a block's votes.
__global__ void count_if(const int* in, int* counts, int n, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int above = i < n && in[i] > limit;
    int total = __syncthreads_count(above);
    if (threadIdx.x == 0) counts[blockIdx.x] = total;
}
