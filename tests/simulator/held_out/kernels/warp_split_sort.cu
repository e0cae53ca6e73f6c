// Each warp sorts 32 bytes bit by bit, zeros before ones, and writes where each came from.
__global__ void warp_split_sort(const unsigned char* x, unsigned char* y, unsigned char* order, int rows) {
    __shared__ unsigned char key[4][32], from[4][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = blockIdx.x * 4 + warp;
    if (row >= rows) return;
    unsigned k = x[row * 32 + lane], source = lane;
    for (int bit = 0; bit < 8; bit++) {
        bool one = k >> bit & 1;
        unsigned ones = __ballot_sync(0xFFFFFFFFu, one);
        unsigned below = (1u << lane) - 1;
        int at = one ? 32 - __popc(ones) + __popc(ones & below) : __popc(~ones & below);
        key[warp][at] = (unsigned char)k;
        from[warp][at] = (unsigned char)source;
        __syncwarp();  // scattered
        k = key[warp][lane];
        source = from[warp][lane];
        __syncwarp();  // gathered
    }
    y[row * 32 + lane] = (unsigned char)k;
    order[row * 32 + lane] = (unsigned char)source;
}
