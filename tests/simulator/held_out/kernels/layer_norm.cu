// Layer normalization: a warp for each row, with the mean first and the squares after it.
__device__ float warp_sum(float v) {
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

__global__ void layer_norm(const float* x, const float* gain, const float* bias, float* y, int rows, int columns,
                           float eps) {
    extern __shared__ float cache[];
    int lane = threadIdx.x;
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    float* mine = cache + threadIdx.y * columns;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int j = lane; j < columns; j += 32) {
        float v = x[row * columns + j];
        mine[j] = v;
        sum += v;
    }
    float mean = warp_sum(sum) / columns;
    float squares = 0.0f;
    for (int j = lane; j < columns; j += 32) {
        float d = mine[j] - mean;
        squares += d * d;
    }
    float scale = rsqrtf(warp_sum(squares) / columns + eps);
    for (int j = lane; j < columns; j += 32) {
        y[row * columns + j] = (mine[j] - mean) * scale * gain[j] + bias[j];
    }
}
