// A step of Jacobi's method, and the largest change of each block.
__global__ void jacobi(const float* u, const float* f, float* v, float* change, int n) {
    __shared__ float largest[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    float diff = 0.0f;
    if (i > 0 && i < n - 1) {
        float value = 0.5f * (u[i - 1] + u[i + 1] - f[i]);
        diff = fabsf(value - u[i]);
        v[i] = value;
    } else if (i < n) {
        v[i] = u[i];
    }
    largest[threadIdx.x] = diff;
    __syncthreads();
    for (int s = 32; s >= 1; s /= 2) {
        if (threadIdx.x < s) largest[threadIdx.x] = fmaxf(largest[threadIdx.x], largest[threadIdx.x + s]);
        __syncthreads();
    }
    if (threadIdx.x == 0) change[blockIdx.x] = largest[0];
}
