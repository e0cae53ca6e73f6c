// Positive elements of a warp move together: their places come from a ballot.
__global__ void compact_ballot(const int* in, int* out, int* counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31;
    int warp = i / 32;
    int v = in[i];
    unsigned int votes = __ballot_sync(0xffffffff, v > 0);
    int place = __popc(votes & ((1u << lane) - 1));
    if (v > 0) out[warp * 32 + place] = v;
    if (lane == 0) counts[warp] = __popc(votes);
}
