// tiledmm: grid=(N+63)/64,(M+63)/64 block=16,16
__global__ void register_tile(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[16][64 + 2], Bs[16][64];  // a row per k; padding keeps writes of As free of conflicts
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 64, col = blockIdx.x * 64;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int i = ty; i < 64; i += 16) As[tx][i] = row + i < M && k0 + tx < K ? A[(row + i) * K + k0 + tx] : 0;
        for (int j = tx; j < 64; j += 16) Bs[ty][j] = k0 + ty < K && col + j < N ? B[(k0 + ty) * N + col + j] : 0;
        __syncthreads();
        //[start]
        // TODO: read four elements of As and four of Bs to registers, and multiply each pair of them.
        // Here, each of the 16 products reads two elements from shared memory.
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j)
                for (int k = 0; k < 16; ++k) acc[i][j] += As[k][ty + 16 * i] * Bs[k][tx + 16 * j];
        //[solution]
        for (int k = 0; k < 16; ++k) {
            float a[4], b[4];
            for (int i = 0; i < 4; ++i) a[i] = As[k][ty + 16 * i];
            for (int j = 0; j < 4; ++j) b[j] = Bs[k][tx + 16 * j];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) acc[i][j] += a[i] * b[j];
        }
        //[end]
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int r = row + ty + 16 * i, c = col + tx + 16 * j;
            if (r < M && c < N) C[r * N + c] = acc[i][j];
        }
}
