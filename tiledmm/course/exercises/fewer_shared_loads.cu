//[start]
// tiledmm: grid=(N+63)/64,(M+63)/64 block=16,16
//[solution]
// tiledmm: grid=(N+127)/128,(M+127)/128 block=16,16
//[end]
__global__ void fewer_shared_loads(const float* A, const float* B, float* C, int M, int N, int K) {
    //[start]
    // TODO: this kernel loads 0.5 elements from shared memory per multiply-add. Let it load fewer.
    __shared__ float As[16][64 + 2], Bs[16][64];  // a row per k; padding keeps writes of As free of conflicts
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 64, col = blockIdx.x * 64;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int i = ty; i < 64; i += 16) As[tx][i] = row + i < M && k0 + tx < K ? A[(row + i) * K + k0 + tx] : 0;
        for (int j = tx; j < 64; j += 16) Bs[ty][j] = k0 + ty < K && col + j < N ? B[(k0 + ty) * N + col + j] : 0;
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            float a[4], b[4];
            for (int i = 0; i < 4; ++i) a[i] = As[k][ty + 16 * i];
            for (int j = 0; j < 4; ++j) b[j] = Bs[k][tx + 16 * j];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int r = row + ty + 16 * i, c = col + tx + 16 * j;
            if (r < M && c < N) C[r * N + c] = acc[i][j];
        }
    //[solution]
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
    //[end]
}
