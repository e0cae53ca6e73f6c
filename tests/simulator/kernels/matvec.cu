// A row a thread; the vector passes through shared memory.
__global__ void matvec(const float* A, const float* x, float* y, int rows, int cols) {
    __shared__ float xs[64];
    int row = blockIdx.x * 64 + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < cols; start += 64) {
        int count = min(64, cols - start);
        if (threadIdx.x < count) xs[threadIdx.x] = x[start + threadIdx.x];
        __syncthreads();
        if (row < rows) {
            for (int k = 0; k < count; ++k) sum += A[row * cols + start + k] * xs[k];
        }
        __syncthreads();
    }
    if (row < rows) y[row] = sum;
}
