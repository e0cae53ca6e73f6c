// An inclusive scan over blocks, which take tickets, and each of which waits for the total of the one before.
__global__ void ticket_prefix(const int* in, int* out, volatile int* totals, int* flags, int* ticket, int n) {
    __shared__ int id;
    __shared__ int before;
    __shared__ int sums[64];
    int t = threadIdx.x;
    if (t == 0) id = atomicAdd(ticket, 1);
    __syncthreads();  // ticket
    int i = id * 64 + t;
    sums[t] = i < n ? in[i] : 0;
    __syncthreads();  // elements
    for (int d = 1; d < 64; d *= 2) {
        int v = t >= d ? sums[t - d] : 0;
        __syncthreads();  // all have read
        sums[t] += v;
        __syncthreads();  // all have added
    }
    if (t == 63) {
        int sum = 0;
        if (id > 0) {
            while (atomicAdd(&flags[id - 1], 0) == 0) {
            }
            __threadfence();  // flag before total
            sum = totals[id - 1];
        }
        totals[id] = sum + sums[63];
        __threadfence();  // total before flag
        atomicExch(&flags[id], 1);
        before = sum;
    }
    __syncthreads();  // sum of the blocks before
    if (i < n) out[i] = before + sums[t];
}
