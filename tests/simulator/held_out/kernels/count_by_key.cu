// Counts of keys: lanes with one key add once.
__global__ void count_by_key(const int* keys, int* counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned mask = __ballot_sync(0xffffffffu, i < n);
    if (i < n) {
        int key = keys[i];
        unsigned peers = __match_any_sync(mask, key);
        int leader = __ffs(peers) - 1;
        if (threadIdx.x % 32 == leader) atomicAdd(&counts[key], __popc(peers));
    }
}
