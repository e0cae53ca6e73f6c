// Sums of products of all pairs of columns, C = X^T * X: four of them for each thread, and eight samples at a time.
#define TILE 16
#define DEPTH 8

__global__ void __launch_bounds__(64) second_moments(const float* X, float* C, int n, int d) {
    __shared__ float down[DEPTH][TILE], across[DEPTH][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    float sums[2][2] = {};
    for (int s = 0; s < n; s += DEPTH) {
        for (int k = ty * 8 + tx; k < DEPTH * TILE; k += 64) {
            int r = k / TILE, c = k % TILE;
            down[r][c] = s + r < n && top + c < d ? X[(s + r) * d + top + c] : 0.0f;
            across[r][c] = s + r < n && left + c < d ? X[(s + r) * d + left + c] : 0.0f;
        }
        __syncthreads();  // samples are here
        for (int r = 0; r < DEPTH; r++) {
            float a[2] = {down[r][ty], down[r][ty + 8]};
            float b[2] = {across[r][tx], across[r][tx + 8]};
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) sums[i][j] += a[i] * b[j];
        }
        __syncthreads();  // samples are used
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            int row = top + ty + 8 * i, column = left + tx + 8 * j;
            if (row < d && column < d) C[row * d + column] = sums[i][j];
        }
}
