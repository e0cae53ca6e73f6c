// C = A B: a block for 16 x 16 numbers of C, of which a thread keeps four in registers.
#define TILE 16
#define STEP 8

__global__ void matmul_blocked(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float as[STEP][TILE];
    __shared__ float bs[STEP][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int id = ty * blockDim.x + tx;
    int row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
    float acc[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
    for (int k0 = 0; k0 < K; k0 += STEP) {
        for (int i = id; i < TILE * STEP; i += 64) {
            int r = i / STEP, k = i % STEP;
            as[k][r] = row0 + r < M && k0 + k < K ? A[(row0 + r) * K + k0 + k] : 0.0f;
        }
        for (int i = id; i < TILE * STEP; i += 64) {
            int k = i / TILE, c = i % TILE;
            bs[k][c] = k0 + k < K && column0 + c < N ? B[(k0 + k) * N + column0 + c] : 0.0f;
        }
        __syncthreads();  // tiles are full
        for (int k = 0; k < STEP; k++) {
            float a[2], b[2];
            for (int i = 0; i < 2; i++) {
                a[i] = as[k][ty + 8 * i];
                b[i] = bs[k][tx + 8 * i];
            }
            for (int i = 0; i < 2; i++) {
                for (int j = 0; j < 2; j++) acc[i][j] += a[i] * b[j];
            }
        }
        __syncthreads();  // tiles are free
    }
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            int row = row0 + ty + 8 * i, column = column0 + tx + 8 * j;
            if (row < M && column < N) C[row * N + column] = acc[i][j];
        }
    }
}
