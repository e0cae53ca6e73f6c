// The best path through a model of 40 states: a thread per state, scores in two buffers, and each step's choices kept.
__global__ void viterbi(const int* emit, const int* change, const unsigned char* seen, int* path, int* score,
                        int steps) {
    constexpr int S = 40;
    __shared__ int best[2][S];
    __shared__ unsigned char choice[24][S];
    int s = threadIdx.x;
    const unsigned char* heard = seen + blockIdx.x * steps;
    if (s < S) best[0][s] = emit[s * 6 + heard[0]];
    __syncthreads();  // the first scores
    for (int t = 1; t < steps; t++) {
        const int* old = best[(t - 1) % 2];
        if (s < S) {
            int top = old[0] + change[s], from = 0;
            for (int p = 1; p < S; p++) {
                int v = old[p] + change[p * S + s];
                if (v > top) {
                    top = v;
                    from = p;
                }
            }
            best[t % 2][s] = top + emit[s * 6 + heard[t]];
            choice[t][s] = (unsigned char)from;
        }
        __syncthreads();  // a step
    }
    if (s == 0) {
        const int* final = best[(steps - 1) % 2];
        int at = 0;
        for (int p = 1; p < S; p++)
            if (final[p] > final[at]) at = p;
        score[blockIdx.x] = final[at];
        for (int t = steps - 1; t > 0; t--) {
            path[blockIdx.x * steps + t] = at;
            at = choice[t][at];
        }
        path[blockIdx.x * steps] = at;
    }
}
