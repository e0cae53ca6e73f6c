// One warp puts rows into four slots of shared memory, and another takes them out and turns them round.
__global__ void warp_mailbox(const int* x, int* y, int rows) {
    __shared__ int slot[4][32];
    __shared__ volatile int put, taken;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        put = 0;
        taken = 0;
    }
    __syncthreads();  // counters
    for (int b = 0; b < rows; b++) {
        int row = blockIdx.x * rows + b;
        if (warp == 0) {
            while (b - taken >= 4) {
            }
            __threadfence_block();  // there is room
            slot[b % 4][lane] = x[row * 32 + lane];
            __threadfence_block();  // before it is put
            __syncwarp();  // all lanes wrote
            if (lane == 0) put = b + 1;
        } else {
            while (put <= b) {
            }
            __threadfence_block();  // it is there
            y[row * 32 + lane] = 3 * slot[b % 4][31 - lane];
            __threadfence_block();  // before it is taken
            __syncwarp();  // all lanes read
            if (lane == 0) taken = b + 1;
        }
    }
}
