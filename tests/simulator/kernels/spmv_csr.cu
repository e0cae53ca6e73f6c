// A sparse matrix in CSR times a vector, a warp a row.
__global__ void spmv_csr(const int* begins, const int* cols, const float* values, const float* x, float* y, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    float sum = 0.0f;
    if (row < rows) {
        for (int e = begins[row] + lane; e < begins[row + 1]; e += 32) sum += values[e] * x[cols[e]];
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (row < rows && lane == 0) y[row] = sum;
}
