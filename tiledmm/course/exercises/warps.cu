// tiledmm: grid=(N+99)/100 block=100
__global__ void warps(const float* x, float* out, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) out[i] = 2 * x[i];
}
