// Lanes with the same bin are counted together.
__global__ void histogram_match(const int* in, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int bin = in[i] & 15;
    unsigned int active = __activemask();
    unsigned int same = __match_any_sync(active, bin);
    int lane = threadIdx.x & 31;
    if (lane == __ffs(same) - 1) atomicAdd(&bins[bin], __popc(same));
}
