// Inclusive scan of a block in two buffers, which are swapped at each step.
__global__ void scan_hillis_steele(const int* in, int* out, int n) {
    extern __shared__ int temp[];
    int tid = threadIdx.x;
    int pout = 0, pin = 1;
    temp[tid] = tid < n ? in[tid] : 0;
    __syncthreads();
    for (int offset = 1; offset < n; offset *= 2) {
        pout = 1 - pout;
        pin = 1 - pout;
        if (tid >= offset)
            temp[pout * n + tid] = temp[pin * n + tid] + temp[pin * n + tid - offset];
        else
            temp[pout * n + tid] = temp[pin * n + tid];
        __syncthreads();
    }
    out[tid] = temp[pout * n + tid];
}
