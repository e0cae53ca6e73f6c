// Lengths of rows: a warp for each, which adds by exchanging sums.
__global__ void row_norms(const float* __restrict__ x, float* norms, int rows, int columns, int pitch) {
    int lane = threadIdx.x;
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const float* mine = x + row * pitch;
    float sum = 0.0f;
    for (int j = lane; j < columns; j += 32) {
        sum += mine[j] * mine[j];
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    }
    if (lane == 0) norms[row] = sqrtf(sum);
}
