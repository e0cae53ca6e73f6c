// A block a row: the maximum, the sum, the quotients.
__global__ void softmax(const float* in, float* out, int cols) {
    __shared__ float s[64];
    int tid = threadIdx.x;
    const float* x = in + blockIdx.x * cols;
    float* y = out + blockIdx.x * cols;
    float m = -INFINITY;
    for (int i = tid; i < cols; i += blockDim.x) m = fmaxf(m, x[i]);
    s[tid] = m;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (tid < k) s[tid] = fmaxf(s[tid], s[tid + k]);
        __syncthreads();
    }
    float highest = s[0];
    __syncthreads();
    float sum = 0.0f;
    for (int i = tid; i < cols; i += blockDim.x) sum += expf(x[i] - highest);
    s[tid] = sum;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (tid < k) s[tid] += s[tid + k];
        __syncthreads();
    }
    float total = s[0];
    for (int i = tid; i < cols; i += blockDim.x) y[i] = expf(x[i] - highest) / total;
}
