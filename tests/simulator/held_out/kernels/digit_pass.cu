// One pass of a radix sort, by two bits, which keeps the order of equal digits. A thread has eight keys in a row.
#define THREADS 128
#define EACH 8

__global__ void digit_pass(const unsigned* in, unsigned* out, int n, int shift) {
    __shared__ int counts[4][THREADS];
    __shared__ int totals[4];
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    int begin = tid * EACH;
    int end = min(begin + EACH, n);
    int mine[4] = {0, 0, 0, 0};
    for (int i = begin; i < end; i++) mine[in[i] >> shift & 3]++;
    for (int d = 0; d < 4; d++) counts[d][tid] = mine[d];
    __syncthreads();  // counts

    // warp d adds up the counts of digit d
    int carry = 0;
    for (int base = 0; base < THREADS; base += 32) {
        int own = counts[warp][base + lane];
        int sum = own;
        for (int offset = 1; offset < 32; offset *= 2) {
            int below = __shfl_up_sync(0xffffffffu, sum, offset);
            if (lane >= offset) sum += below;
        }
        counts[warp][base + lane] = carry + sum - own;
        carry += __shfl_sync(0xffffffffu, sum, 31);
    }
    if (lane == 0) totals[warp] = carry;
    __syncthreads();  // places

    int place[4];
    int before = 0;
    for (int d = 0; d < 4; d++) {
        place[d] = before + counts[d][tid];
        before += totals[d];
    }
    for (int i = begin; i < end; i++) {
        unsigned key = in[i];
        out[place[key >> shift & 3]++] = key;
    }
}
