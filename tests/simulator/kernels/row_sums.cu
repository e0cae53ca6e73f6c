// A warp a row.
__global__ void row_sums(const float* matrix, float* sums, int rows, int cols) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x & 31;
    if (row >= rows) return;   // whole warps leave
    float sum = 0.0f;
    for (int col = lane; col < cols; col += 32) sum += matrix[row * cols + col];
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (lane == 0) sums[row] = sum;
}
