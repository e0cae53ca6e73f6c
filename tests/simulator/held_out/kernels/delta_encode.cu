// Each number less the one before it, in place, by one block from the end to the start.
__global__ void delta_encode(int* x, int n) {
    int chunks = (n + blockDim.x - 1) / blockDim.x;
    for (int c = chunks - 1; c >= 0; c--) {
        int i = c * blockDim.x + threadIdx.x;
        int own = 0, before = 0;
        if (i < n) {
            own = x[i];
            if (i > 0) before = x[i - 1];
        }
        __syncthreads();
        if (i < n) x[i] = own - before;
    }
}
