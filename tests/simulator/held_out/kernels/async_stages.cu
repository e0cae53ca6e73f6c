// Differences of neighbouring columns: rows are copied by cp.async into three stages of shared memory.
__device__ void copy_word(int* to, const int* from) {
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from) : "memory");
}

__global__ void async_stages(const int* x, int* y, int rows) {
    __shared__ int stage[3][64];
    int t = threadIdx.x;
    const int* in = x + blockIdx.x * rows * 64;
    for (int r = 0; r < 2; r++) {
        copy_word(&stage[r][t], in + r * 64 + t);
        asm volatile("cp.async.commit_group;" ::: "memory");  // first rows
    }
    for (int r = 0; r < rows; r++) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();  // the row is there
        if (r + 2 < rows) copy_word(&stage[(r + 2) % 3][t], in + (r + 2) * 64 + t);
        asm volatile("cp.async.commit_group;" ::: "memory");  // next row
        y[(blockIdx.x * rows + r) * 64 + t] = stage[r % 3][(t + 1) % 64] - stage[r % 3][t];
    }
}
