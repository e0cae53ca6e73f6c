// A dot product: tiles come into two buffers by cp.async.
__device__ __forceinline__ void copy16(void* to, const void* from) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(address), "l"(from) : "memory");
}

__global__ void dot_async(const float* x, const float* y, float* result, int tiles) {
    __shared__ __align__(16) float xs[2][256];
    __shared__ __align__(16) float ys[2][256];
    int t = threadIdx.x;
    copy16(&xs[0][4 * t], x + 4 * t);
    copy16(&ys[0][4 * t], y + 4 * t);
    asm volatile("cp.async.commit_group;\n" ::: "memory");
    float sum = 0;
    for (int i = 0; i < tiles; ++i) {
        if (i + 1 < tiles) {
            int next = (i + 1) & 1;
            copy16(&xs[next][4 * t], x + (i + 1) * 256 + 4 * t);
            copy16(&ys[next][4 * t], y + (i + 1) * 256 + 4 * t);
            asm volatile("cp.async.commit_group;" ::: "memory");
            asm volatile("cp.async.wait_group 1;\n" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;\n" ::: "memory");
        }
        __syncthreads();  // tile i is there
        for (int j = t; j < 256; j += 64) {
            sum += xs[i & 1][j] * ys[i & 1][j];
        }
        __syncthreads();  // tile i is read
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (t % 32 == 0) atomicAdd(result, sum);
}
