// Cells between walls take the largest label among them, step by step until nothing changes.
__global__ void spread_labels(const unsigned char* wall, int* label, int n) {
    __shared__ int a[128];
    int t = threadIdx.x;
    a[t] = t < n && !wall[t] ? t : -1;
    __syncthreads();  // labels
    bool changed;
    do {
        int best = a[t];
        if (best >= 0) {
            if (t > 0) best = max(best, a[t - 1]);
            if (t + 1 < n) best = max(best, a[t + 1]);
        }
        __syncthreads();  // all have read
        changed = best != a[t];
        a[t] = best;
    } while (__syncthreads_or(changed));
    if (t < n) label[t] = a[t];
}
