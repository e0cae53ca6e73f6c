// The second launch of a scan: what the blocks before summed is added.
__global__ void add_block_sums(int* data, const int* block_sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x == 0 || i >= n) return;
    int before = 0;
    for (int b = 0; b < blockIdx.x; ++b) before += block_sums[b];
    data[i] += before;
}
