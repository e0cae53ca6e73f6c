// Integer averages of bins; empty bins are 0.
__global__ void average_divide(const int* sums, const int* counts, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = counts[i] != 0 ? sums[i] / counts[i] : 0;
}
