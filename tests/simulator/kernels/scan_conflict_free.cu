// The same with rows of shared memory padded against bank conflicts.
#define PADDED(i) ((i) + ((i) >> 5))

__global__ void scan_conflict_free(const int* in, int* out) {
    __shared__ int t[128 + 4];
    int tid = threadIdx.x;
    t[PADDED(tid)] = in[tid];
    t[PADDED(tid + 64)] = in[tid + 64];
    int offset = 1;
    for (int d = 64; d > 0; d >>= 1) {
        __syncthreads();
        if (tid < d) t[PADDED(offset * (2 * tid + 2) - 1)] += t[PADDED(offset * (2 * tid + 1) - 1)];
        offset <<= 1;
    }
    __syncthreads();
    if (tid == 0) t[PADDED(127)] = 0;
    for (int d = 1; d < 128; d <<= 1) {
        offset >>= 1;
        __syncthreads();
        if (tid < d) {
            int a = PADDED(offset * (2 * tid + 1) - 1), b = PADDED(offset * (2 * tid + 2) - 1);
            int left = t[a];
            t[a] = t[b];
            t[b] = left + t[b];
        }
    }
    __syncthreads();
    out[tid] = t[PADDED(tid)];
    out[tid + 64] = t[PADDED(tid + 64)];
}
