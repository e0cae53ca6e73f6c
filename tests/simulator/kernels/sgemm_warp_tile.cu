// Warps have tiles of their own within the block's.
constexpr int BM = 32, BN = 64, BK = 8;   // the block's tile: two warps
constexpr int WM = 32, WN = 32;           // a warp's
constexpr int TM = 4, TN = 8;             // a thread's: 8 x 4 threads a warp

__global__ void sgemm_warp_tile(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int N,
                                int K) {
    __shared__ float As[BK][BM];
    __shared__ float Bs[BK][BN];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / (BN / WN), warp_col = warp % (BN / WN);
    const int row = warp_row * WM + lane / (WN / TN) * TM;
    const int col = warp_col * WN + lane % (WN / TN) * TN;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += blockDim.x) {
            As[i % BK][i / BK] = A[(blockIdx.y * BM + i / BK) * K + k0 + i % BK];
        }
        for (int i = threadIdx.x; i < BK * BN; i += blockDim.x) {
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + blockIdx.x * BN + i % BN];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float frag_a[TM], frag_b[TN];
            for (int i = 0; i < TM; ++i) frag_a[i] = As[k][row + i];
            for (int j = 0; j < TN; ++j) frag_b[j] = Bs[k][col + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(frag_a[i], frag_b[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) C[(blockIdx.y * BM + row + i) * N + blockIdx.x * BN + col + j] = acc[i][j];
}
