// Five points, a tile with a halo of one.
#define W 16

__global__ void stencil_2d(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[W + 2][W + 2];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    int col = blockIdx.x * W + threadIdx.x;
    int row = blockIdx.y * W + threadIdx.y;
    bool inside = row < rows && col < cols;
    tile[ty][tx] = inside ? in[row * cols + col] : 0.0f;
    if (threadIdx.y == 0) tile[0][tx] = row > 0 && col < cols ? in[(row - 1) * cols + col] : 0.0f;
    if (threadIdx.y == W - 1) tile[W + 1][tx] = row + 1 < rows && col < cols ? in[(row + 1) * cols + col] : 0.0f;
    if (threadIdx.x == 0) tile[ty][0] = col > 0 && row < rows ? in[row * cols + col - 1] : 0.0f;
    if (threadIdx.x == W - 1) tile[ty][W + 1] = col + 1 < cols && row < rows ? in[row * cols + col + 1] : 0.0f;
    __syncthreads();
    if (inside) {
        float around = tile[ty - 1][tx] + tile[ty + 1][tx] + tile[ty][tx - 1] + tile[ty][tx + 1];
        out[row * cols + col] = 0.5f * tile[ty][tx] + 0.125f * around;
    }
}
