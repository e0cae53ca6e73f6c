// Counts keys with one atomic per key and warp, and notes for each element the first one of its warp with the same key.
__global__ void match_first(const int* keys, int* bins, int* first, int n) {
    int lane = threadIdx.x % 32;
    for (int start = blockIdx.x * blockDim.x; start < n; start += gridDim.x * blockDim.x) {
        int i = start + threadIdx.x;
        unsigned active = __ballot_sync(0xFFFFFFFFu, i < n);
        if (i < n) {
            int key = keys[i];
            unsigned peers = __match_any_sync(active, key);
            int leader = __ffs(peers) - 1;
            if (lane == leader) atomicAdd(&bins[key], __popc(peers));
            first[i] = __shfl_sync(peers, i, leader);
        }
    }
}
