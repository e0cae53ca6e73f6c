// Inclusive scan in one buffer: everyone reads, then everyone writes.
__global__ void scan_in_place(const int* in, int* out) {
    __shared__ int s[128];
    int tid = threadIdx.x;
    int base = blockIdx.x * 128;
    s[tid] = in[base + tid];
    __syncthreads();
    for (int d = 1; d < 128; d <<= 1) {
        int add = 0;
        if (tid >= d) add = s[tid - d];
        __syncthreads();
        s[tid] += add;
        __syncthreads();
    }
    out[base + tid] = s[tid];
}
