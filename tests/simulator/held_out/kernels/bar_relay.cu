// Two warps fill buffers for two others; named barriers say that a buffer is full or empty.
__device__ void sync_at(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ void arrive_at(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__global__ void bar_relay(const int* x, int* y, int rounds) {
    __shared__ int buffer[2][64];
    const int full = 1, empty = 3;
    int t = threadIdx.x % 64;
    if (threadIdx.x < 64) {
        for (int r = 0; r < rounds; r++) {
            if (r >= 2) sync_at(empty + r % 2, 128);
            buffer[r % 2][t] = x[(blockIdx.x * rounds + r) * 64 + t];
            __threadfence_block();
            arrive_at(full + r % 2, 128);
        }
    } else {
        for (int r = 0; r < rounds; r++) {
            sync_at(full + r % 2, 128);
            int v = buffer[r % 2][t ^ 33] + buffer[r % 2][63 - t];
            if (r + 2 < rounds) arrive_at(empty + r % 2, 128);
            y[(blockIdx.x * rounds + r) * 64 + t] = v;
        }
    }
}
