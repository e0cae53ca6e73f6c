// Running sums: each thread slides a window down a column.
__global__ void box_blur(const int* in, int* out, int rows, int cols, int window) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    int sum = 0;
    for (int r = 0; r < window; ++r) sum += in[r * cols + col];
    for (int r = 0; r + window <= rows; ++r) {
        out[r * cols + col] = sum / window;
        if (r + window < rows) sum += in[(r + window) * cols + col] - in[r * cols + col];
    }
}
