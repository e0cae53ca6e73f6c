// A warp a row, in one pass: the sum is rescaled whenever the maximum grows.
__global__ void softmax_online(const float* in, float* out, int rows, int cols) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    int lane = threadIdx.x;
    if (row >= rows) return;
    float m = -INFINITY, sum = 0.0f;
    for (int i = lane; i < cols; i += 32) {
        float x = in[row * cols + i];
        float higher = fmaxf(m, x);
        sum = sum * expf(m - higher) + expf(x - higher);
        m = higher;
    }
    for (int mask = 16; mask > 0; mask /= 2) {
        float other_m = __shfl_xor_sync(0xffffffff, m, mask);
        float other_sum = __shfl_xor_sync(0xffffffff, sum, mask);
        float higher = fmaxf(m, other_m);
        sum = sum * expf(m - higher) + other_sum * expf(other_m - higher);
        m = higher;
    }
    for (int i = lane; i < cols; i += 32) out[row * cols + i] = expf(in[row * cols + i] - m) / sum;
}
