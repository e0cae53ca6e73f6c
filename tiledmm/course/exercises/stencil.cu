// tiledmm: grid=(N+31)/32,(M+7)/8 block=32,8
__global__ void stencil(const float* x, float* out, int M, int N) {
    //[start]
    // TODO: compute row and col so that a warp reads floats that lie side by side.
    int row = 0, col = 0;
    // TODO: read the neighbours. Those beyond the edge count as 0; x has no elements there.
    float up = 0, down = 0, left = 0, right = 0;
    if (row < M && col < N) out[row * N + col] = up + down + left + right - 4 * x[row * N + col];
    //[solution]
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float up = row > 0 ? x[(row - 1) * N + col] : 0;
    float down = row < M - 1 ? x[(row + 1) * N + col] : 0;
    float left = col > 0 ? x[row * N + col - 1] : 0;
    float right = col < N - 1 ? x[row * N + col + 1] : 0;
    out[row * N + col] = up + down + left + right - 4 * x[row * N + col];
    //[end]
}
