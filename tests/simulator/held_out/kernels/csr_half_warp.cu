// A sparse matrix times a vector: half a warp for each row.
__global__ void csr_half_warp(const int* begin, const int* columns, const float* values, const float* x, float* y,
                              int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 16;
    int lane = threadIdx.x % 16;
    float sum = 0;
    if (row < rows) {
        for (int e = begin[row] + lane; e < begin[row + 1]; e += 16) {
            sum += values[e] * x[columns[e]];
        }
    }
    for (int o = 8; o > 0; o /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, o, 16);
    }
    if (lane == 0 && row < rows) {
        y[row] = sum;
    }
}
