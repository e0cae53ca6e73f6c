// Each element depends on the one above it: a block per row, which follows the block above it chunk by chunk.
__global__ void row_chain(const int* x, int* y, volatile int* done, int width) {
    int r = blockIdx.x, chunk = 1;
    for (int c0 = 0; c0 < width; c0 += blockDim.x, chunk++) {
        if (r > 0 && threadIdx.x == 0) {
            while (done[r - 1] < chunk) {
            }
            __threadfence();  // after the flag
        }
        __syncthreads();  // the row above has this chunk
        int c = c0 + threadIdx.x;
        if (c < width) {
            int above = r > 0 ? y[(r - 1) * width + c] : 0;
            y[r * width + c] = (7 * above + x[r * width + c]) % 1000;
        }
        __threadfence();  // before the flag
        __syncthreads();  // the chunk is written
        if (threadIdx.x == 0) done[r] = chunk;
    }
}
