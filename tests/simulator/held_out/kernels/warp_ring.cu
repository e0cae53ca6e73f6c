// Warp 0 fills a ring of four rows and warp 1 uses them, with a count of rows made and one of rows used.
#define SLOTS 4

__global__ void warp_ring(const int* x, int* out, int rows) {
    __shared__ int ring[SLOTS][32];
    __shared__ volatile int made, used;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        made = 0;
        used = 0;
    }
    __syncthreads();  // counts are zero
    if (warp == 0) {
        for (int r = 0; r < rows; r++) {
            if (lane == 0) {
                while (r - used >= SLOTS) {
                }
                __threadfence_block();
            }
            __syncwarp();  // a slot is free
            ring[r % SLOTS][lane] = x[r * 32 + lane];
            __threadfence_block();
            __syncwarp();  // a row is stored
            if (lane == 0) made = r + 1;
        }
    } else {
        int sum = 0;
        for (int r = 0; r < rows; r++) {
            if (lane == 0) {
                while (made <= r) {
                }
                __threadfence_block();
            }
            __syncwarp();  // a row is here
            sum = 3 * sum + ring[r % SLOTS][lane ^ 1];
            __threadfence_block();
            __syncwarp();  // a row is used
            if (lane == 0) used = r + 1;
        }
        out[lane] = sum;
    }
}
