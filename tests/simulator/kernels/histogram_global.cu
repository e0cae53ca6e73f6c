// Atomics on global memory.
__global__ void histogram_global(const unsigned char* in, unsigned int* bins, int n) {
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        atomicAdd(&bins[in[i]], 1u);
    }
}
