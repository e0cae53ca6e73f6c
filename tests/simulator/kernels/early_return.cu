// Threads beyond the data return before a barrier; the others need not wait for them (compute capability 7.0).
__global__ void early_return(const int* in, int* out, int n) {
    __shared__ int s[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    s[threadIdx.x] = in[i];
    __syncthreads();
    int other = threadIdx.x ^ 1;
    int partner = blockIdx.x * blockDim.x + other;
    out[i] = partner < n ? s[other] : s[threadIdx.x];
}
