// Numbers cut off at -8 and 7, eight of them in a word: lanes put theirs together; and how many were cut off.
__global__ void pack_nibbles(const signed char* x, unsigned* packed, int* clipped, int n) {
    int lane = threadIdx.x % 32;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = i < n ? x[i] : 0;
    int level = max(-8, min(7, v));
    unsigned word = (unsigned)(level & 15) << (4 * (lane % 8));
    for (int offset = 4; offset > 0; offset >>= 1) word |= __shfl_xor_sync(0xffffffffu, word, offset, 8);
    if (lane % 8 == 0 && i < n) packed[i / 8] = word;
    unsigned cut = __ballot_sync(0xffffffffu, v != level);
    if (lane == 0) atomicAdd(clipped, __popc(cut));
}
