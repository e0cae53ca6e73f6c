// Exclusive scan: up-sweep, then down-sweep. Two elements a thread.
__global__ void scan_blelloch(const int* in, int* out, int n) {
    extern __shared__ int t[];
    int tid = threadIdx.x;
    int offset = 1;
    t[2 * tid] = in[2 * tid];
    t[2 * tid + 1] = in[2 * tid + 1];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (tid < d) {
            int a = offset * (2 * tid + 1) - 1;
            int b = offset * (2 * tid + 2) - 1;
            t[b] += t[a];
        }
        offset *= 2;
    }
    if (tid == 0) t[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (tid < d) {
            int a = offset * (2 * tid + 1) - 1;
            int b = offset * (2 * tid + 2) - 1;
            int left = t[a];
            t[a] = t[b];
            t[b] += left;
        }
    }
    __syncthreads();
    out[2 * tid] = t[2 * tid];
    out[2 * tid + 1] = t[2 * tid + 1];
}
