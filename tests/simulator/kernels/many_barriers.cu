// Thousands of barriers: diffusion on a ring, in shared memory.
__global__ void many_barriers(const float* in, float* out, int steps) {
    __shared__ float now[64], next[64];
    int i = threadIdx.x;
    now[i] = in[i];
    __syncthreads();
    for (int step = 0; step < steps; ++step) {
        next[i] = 0.25f * now[(i + 63) % 64] + 0.5f * now[i] + 0.25f * now[(i + 1) % 64];
        __syncthreads();
        now[i] = next[i];
        __syncthreads();
    }
    out[i] = now[i];
}
