// Matrices of a batch along the grid's z; a warp a row.
__global__ void batched_gemv(const float* A, const float* x, float* y, int rows, int cols) {
    A += (size_t)blockIdx.z * rows * cols;
    x += (size_t)blockIdx.z * cols;
    y += (size_t)blockIdx.z * rows;
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int col = threadIdx.x; col < cols; col += warpSize) sum += A[row * cols + col] * x[col];
    for (int d = warpSize / 2; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    if (threadIdx.x == 0) y[row] = sum;
}
