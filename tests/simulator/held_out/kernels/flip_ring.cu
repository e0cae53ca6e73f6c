// Turns tiles of numbers round: they come through a ring of three stages of cp.async.
#define STAGES 3
#define TILE 128

__device__ __forceinline__ void copy16(void* to, const void* from) {
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}

__global__ void flip_ring(const float* x, float* y, int tiles) {
    __shared__ __align__(16) float ring[STAGES][TILE];
    int tid = threadIdx.x;
    const float* mine = x + blockIdx.x * tiles * TILE;
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < tiles && tid < TILE / 4) copy16(&ring[s][4 * tid], mine + s * TILE + 4 * tid);
        asm volatile("cp.async.commit_group;");  // one of the first
    }
    for (int t = 0; t < tiles; t++) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();  // tile t is here, and all are done with the one before
        int ahead = t + STAGES - 1;
        if (ahead < tiles && tid < TILE / 4) copy16(&ring[ahead % STAGES][4 * tid], mine + ahead * TILE + 4 * tid);
        asm volatile("cp.async.commit_group;");  // one ahead, or nothing
        float* out = y + (blockIdx.x * tiles + t) * TILE;
        for (int i = tid; i < TILE; i += blockDim.x) out[i] = ring[t % STAGES][TILE - 1 - i];
    }
}
