// One atomic for all active lanes of a warp.
__device__ int aggregated_add(int* counter) {
    unsigned int active = __activemask();
    int leader = __ffs(active) - 1;
    int lane = threadIdx.x & 31;
    int base = 0;
    if (lane == leader) base = atomicAdd(counter, __popc(active));
    base = __shfl_sync(active, base, leader);
    return base + __popc(active & ((1u << lane) - 1));
}

__global__ void compact_aggregated(const int* in, int* kept, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] % 3 == 0) {
        int place = aggregated_add(count);
        kept[place] = i;
    }
}
