// Even elements first, then odd ones, each in their order.
__global__ void partition_even(const int* in, int* out, int* evens, int n) {
    __shared__ int warp_counts[4];
    int t = threadIdx.x;
    int lane = t % 32;
    int warp = t / 32;
    int v = t < n ? in[t] : 1;
    bool even = v % 2 == 0;
    unsigned votes = __ballot_sync(0xffffffffu, even);
    int before = __popc(votes & ((1u << lane) - 1));
    if (lane == 0) warp_counts[warp] = __popc(votes);
    __syncthreads();
    int base = 0, total = 0;
    for (int w = 0; w < 4; ++w) {
        if (w < warp) base += warp_counts[w];
        total += warp_counts[w];
    }
    int place = base + before;
    if (t < n) out[even ? place : total + t - place] = v;
    if (t == 0) *evens = total;
}
