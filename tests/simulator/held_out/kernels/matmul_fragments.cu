// A product of matrices of any size: 32 x 32 per block and 4 x 4 per thread, with A's tile turned in shared memory.
__global__ void matmul_fragments(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[8][33];
    __shared__ float b[8][32];
    int tx = threadIdx.x % 8, ty = threadIdx.x / 8;
    int row = blockIdx.y * 32, col = blockIdx.x * 32;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = threadIdx.x; i < 32 * 8; i += 64) {
            int r = row + i / 8, k = k0 + i % 8;
            a[i % 8][i / 8] = r < M && k < K ? A[r * K + k] : 0.0f;
        }
        for (int i = threadIdx.x; i < 8 * 32; i += 64) {
            int k = k0 + i / 32, c = col + i % 32;
            b[i / 32][i % 32] = k < K && c < N ? B[k * N + c] : 0.0f;
        }
        __syncthreads();  // loaded
        for (int k = 0; k < 8; k++) {
            float x[4], y[4];
            for (int i = 0; i < 4; i++) x[i] = a[k][ty * 4 + i];
            for (int j = 0; j < 4; j++) y[j] = b[k][tx + 8 * j];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sum[i][j] += x[i] * y[j];
        }
        __syncthreads();  // used
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            int r = row + ty * 4 + i, c = col + tx + 8 * j;
            if (r < M && c < N) C[r * N + c] = sum[i][j];
        }
    }
}
