// Keeps what is above a limit: votes in a warp, a sum in a block, one atomic for each block.
__global__ void ballot_compaction(const int* x, int* kept, int* count, int n, int limit) {
    __shared__ int warps[3];
    __shared__ int base;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < n && x[i] > limit;
    unsigned votes = __ballot_sync(0xffffffffu, keep);
    if (lane == 0) warps[warp] = __popc(votes);
    __syncthreads();  // counts
    if (threadIdx.x == 0) {
        int total = 0;
        for (int w = 0; w < 3; w++) {
            int here = warps[w];
            warps[w] = total;
            total += here;
        }
        base = atomicAdd(count, total);
    }
    __syncthreads();  // places
    if (keep) kept[base + warps[warp] + __popc(votes & ((1u << lane) - 1))] = x[i];
}
