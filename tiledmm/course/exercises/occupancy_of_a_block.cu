// tiledmm: grid=N/128 block=128
__global__ void occupancy_of_a_block(const float* x, float* out, int N) {
    __shared__ float part[5120];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = x[i];
    __syncthreads();
    out[i] = part[127 - threadIdx.x];
}
