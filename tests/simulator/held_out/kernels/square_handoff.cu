// Two warps square numbers into two buffers, two others take them from there: named barriers for full and empty.
__device__ __forceinline__ void bar_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void bar_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__global__ void square_handoff(const int* x, int* y, int n) {
    __shared__ int buffer[2][64];
    int lane = threadIdx.x % 64;
    int rounds = (n + 63) / 64;
    if (threadIdx.x < 64) {
        for (int r = 0; r < rounds; r++) {
            int fill = r & 1;
            if (r >= 2) bar_sync(3 + fill, 128);  // it is empty
            int at = r * 64 + lane;
            buffer[fill][lane] = at < n ? x[at] * x[at] : 0;
            bar_arrive(1 + fill, 128);  // it is full
        }
    } else {
        for (int r = 0; r < rounds; r++) {
            int take = r & 1;
            bar_sync(1 + take, 128);  // it is full
            int at = r * 64 + lane;
            int both = buffer[take][lane] + buffer[take][63 - lane];
            if (at < n) y[at] = both;
            if (r + 2 < rounds) bar_arrive(3 + take, 128);  // it is empty
        }
    }
}
