// Keeps the odd numbers in order: blocks publish how many they keep, and look back for the numbers of those before.
__global__ void lookback_select(const int* x, int* y, unsigned* state, int* ticket, int* kept, int n) {
    // the upper two bits of a state: 0 nothing yet, 1 the block's own number, 2 the number up to this block
    __shared__ int block, before;
    __shared__ int counts[3];
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    if (tid == 0) block = atomicAdd(ticket, 1);
    __syncthreads();  // which block
    int i = block * 96 + tid;
    bool keep = i < n && (x[i] & 1);
    unsigned votes = __ballot_sync(0xFFFFFFFFu, keep);
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();  // counts
    if (tid == 0) {
        unsigned own = counts[0] + counts[1] + counts[2];
        unsigned sum = 0;
        if (block > 0) {
            atomicExch(&state[block], 1u << 30 | own);
            for (int b = block - 1;; b--) {
                unsigned seen = atomicAdd(&state[b], 0u);
                while (seen >> 30 == 0) seen = atomicAdd(&state[b], 0u);
                sum += seen & 0x3FFFFFFFu;
                if (seen >> 30 == 2) break;
            }
        }
        atomicExch(&state[block], 2u << 30 | (sum + own));
        before = sum;
        if (block == (int)gridDim.x - 1) *kept = sum + own;
    }
    __syncthreads();  // the number before
    int at = before;
    for (int w = 0; w < warp; w++) at += counts[w];
    if (keep) y[at + __popc(votes & ((1u << lane) - 1))] = x[i];
}
