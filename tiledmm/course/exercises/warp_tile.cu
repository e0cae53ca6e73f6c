// tiledmm: grid=(N+63)/64,(M+31)/32 block=128
__global__ void warp_tile(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) float As[16][32 + 4], Bs[16][64];  // a row per k; padding keeps vectors aligned
    int t = threadIdx.x, row = blockIdx.y * 32, col = blockIdx.x * 64;
    //[start]
    // TODO: y and x are the first row and column of the thread's 4 x 4 elements in the block's tile of 32 x 64. Here,
    // a warp computes 8 x 64 elements. Let it compute 16 x 32, with its lanes in the order that the task draws.
    int y = t / 16 * 4, x = t % 16 * 4;
    //[solution]
    int warp = t / 32, lane = t % 32;
    int lane_row = lane / 16 * 2 + lane % 2, lane_col = lane % 16 / 2;
    int y = warp / 2 * 16 + lane_row * 4, x = warp % 2 * 32 + lane_col * 4;
    //[end]
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int i = t; i < 16 * 32; i += 128) {
            int r = row + i / 16, k = k0 + i % 16;
            As[i % 16][i / 16] = r < M && k < K ? A[r * K + k] : 0;
        }
        for (int i = t; i < 16 * 64; i += 128) {
            int k = k0 + i / 64, c = col + i % 64;
            Bs[i / 64][i % 64] = k < K && c < N ? B[k * N + c] : 0;
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            //[start]
            // TODO: read four elements of each tile with one instruction.
            float a[4], b[4];
            for (int i = 0; i < 4; ++i) a[i] = As[k][y + i];
            for (int j = 0; j < 4; ++j) b[j] = Bs[k][x + j];
            //[solution]
            float4 a4 = *(float4*)&As[k][y];
            float4 b4 = *(float4*)&Bs[k][x];
            float a[4] = {a4.x, a4.y, a4.z, a4.w}, b[4] = {b4.x, b4.y, b4.z, b4.w};
            //[end]
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            if (row + y + i < M && col + x + j < N) C[(row + y + i) * N + col + x + j] = acc[i][j];
}
