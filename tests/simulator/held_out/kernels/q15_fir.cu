// A filter of 12 fractions of 15 bits: sums of 64 bits, rounded and saturated to 16.
__constant__ short taps[12] = {-1200, 900, 2600, -4100, 9000, 31000, 31000, 9000, -4100, 2600, 900, -1200};

__device__ short saturate(long long v) {
    v = (v + (1 << 14)) >> 15;
    if (v > 32767) return 32767;
    if (v < -32768) return -32768;
    return (short)v;
}

__global__ void q15_fir(const short* x, short* y, long long* energy, int n) {
    __shared__ unsigned long long total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();  // zero
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        long long sum = 0;
        for (int k = 0; k < 12; k++) {
            if (i - k >= 0) sum += (int)taps[k] * x[i - k];
        }
        short out = saturate(sum);
        y[i] = out;
        atomicAdd(&total, (unsigned long long)((long long)out * out));
    }
    __syncthreads();  // the total
    if (threadIdx.x == 0) energy[blockIdx.x] = (long long)total;
}
