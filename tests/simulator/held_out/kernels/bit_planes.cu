// Five-bit codes in planes of bits: 32 codes become five words, by votes, and are taken apart again.
#define BITS 5

__global__ void bit_planes(const unsigned char* codes, unsigned* planes, unsigned char* back, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31;
    int group = i >> 5;
    int groups = (n + 31) / 32;
    if (group >= groups) return;
    unsigned code = i < n ? codes[i] : 0u;
    unsigned mine = 0;
    for (int b = 0; b < BITS; b++) {
        unsigned votes = __ballot_sync(0xffffffffu, code >> b & 1u);
        if (lane == b) mine = votes;
    }
    if (lane < BITS) planes[group * BITS + lane] = mine;
    unsigned again = 0;
    for (int b = 0; b < BITS; b++) {
        unsigned word = __shfl_sync(0xffffffffu, mine, b);
        again |= (word >> lane & 1u) << b;
    }
    if (i < n) back[i] = again;
}
