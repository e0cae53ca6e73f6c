// A bias a column, then max(x, 0), in place.
__global__ void bias_relu(float* x, const float* bias, int rows, int cols) {
    int total = rows * cols;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float v = x[i] + bias[i % cols];
        x[i] = v > 0.0f ? v : 0.0f;
    }
}
