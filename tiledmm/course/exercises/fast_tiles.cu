// tiledmm: grid=(N+127)/128,(M+127)/128 block=16,16
//[start]
__global__ void fast_tiles(const float* A, const float* B, float* C, int M, int N, int K) {
//[solution]
__global__ void __launch_bounds__(256, 2) fast_tiles(const float* A, const float* B, float* C, int M, int N, int K) {
//[end]
    //[start]
    // TODO: move 16 bytes per instruction wherever elements lie side by side.
    __shared__ float As[8][128 + 4], Bs[8][128];  // a row per k; padding keeps writes of As free of conflicts
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 128, col = blockIdx.x * 128;
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int t = ty * 16 + tx; t < 8 * 128; t += 256) {
            int r = row + t / 8, c = col + t % 128, k_a = k0 + t % 8, k_b = k0 + t / 128;
            As[t % 8][t / 8] = r < M && k_a < K ? A[r * K + k_a] : 0;
            Bs[t / 128][t % 128] = k_b < K && c < N ? B[k_b * N + c] : 0;
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            float a[8], b[8];
            for (int i = 0; i < 8; ++i) a[i] = As[k][ty + 16 * i];
            for (int j = 0; j < 8; ++j) b[j] = Bs[k][tx + 16 * j];
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) {
            int r = row + ty + 16 * i, c = col + tx + 16 * j;
            if (r < M && c < N) C[r * N + c] = acc[i][j];
        }
    //[solution]
    __shared__ __align__(16) float As[8][128 + 4], Bs[8][128];  // rows begin at multiples of 16 bytes
    int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx, row = blockIdx.y * 128, col = blockIdx.x * 128;
    int row_a = t / 2, k_a = t % 2 * 4, k_b = t / 32, col_b = t % 32 * 4;  // the four elements that this thread copies
    const float4 zeros = {0, 0, 0, 0};
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        bool has_a = row + row_a < M && k0 + k_a < K, has_b = k0 + k_b < K && col + col_b < N;
        float4 x = has_a ? *(const float4*)&A[(row + row_a) * K + k0 + k_a] : zeros;
        As[k_a][row_a] = x.x;
        As[k_a + 1][row_a] = x.y;
        As[k_a + 2][row_a] = x.z;
        As[k_a + 3][row_a] = x.w;
        *(float4*)&Bs[k_b][col_b] = has_b ? *(const float4*)&B[(k0 + k_b) * N + col + col_b] : zeros;
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            float4 a0 = *(float4*)&As[k][4 * ty], a1 = *(float4*)&As[k][4 * ty + 64];
            float4 b0 = *(float4*)&Bs[k][4 * tx], b1 = *(float4*)&Bs[k][4 * tx + 64];
            float a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
            float b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; j += 4) {
            int r = row + 4 * ty + i % 4 + i / 4 * 64, c = col + 4 * tx + j * 16;
            float4 sums = {acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]};
            if (r < M && c < N) *(float4*)&C[r * N + c] = sums;
        }
    //[end]
}
