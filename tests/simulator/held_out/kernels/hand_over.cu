// One warp fills two buffers in turn, another adds them up: named barriers say when one is full or empty.
__global__ void hand_over(const int* in, int* out, int rounds) {
    __shared__ int buffer[2][32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int r = 0; r < rounds; ++r) {
            int empty = 3 + (r & 1), full = 1 + (r & 1);
            if (r >= 2) asm volatile("bar.sync %0, 64;" ::"r"(empty) : "memory");
            buffer[r & 1][lane] = in[r * 32 + lane];
            asm volatile("bar.arrive %0, 64;" ::"r"(full) : "memory");
        }
    } else {
        int sum = 0;
        for (int r = 0; r < rounds; ++r) {
            int emptied = 3 + (r & 1), filled = 1 + (r & 1);
            asm volatile("bar.sync %0, 64;" ::"r"(filled) : "memory");
            sum += buffer[r & 1][31 - lane];
            if (r + 2 < rounds) asm volatile("bar.arrive %0, 64;" ::"r"(emptied) : "memory");
        }
        out[lane] = sum;
    }
}
