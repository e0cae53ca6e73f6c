// The tree of sums needs a barrier in each round.
__global__ void block_sums(const float* x, float* sums, int n)
{
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int d = blockDim.x / 2; d > 0; d >>= 1)
        if (t < d) s[t] += s[t + d];
    if (t == 0) sums[blockIdx.x] = s[0];
}
