// TM x TN results a thread, from fragments in registers.
#define BM 32
#define BN 32
#define BK 8
#define TM 4
#define TN 4
#define NUM_THREADS ((BM * BN) / (TM * TN))

__global__ void __launch_bounds__(NUM_THREADS) sgemm_2d_tile(const float* A, const float* B, float* C, int N, int K) {
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];
    int tid = threadIdx.x;
    int trow = tid / (BN / TN);
    int tcol = tid % (BN / TN);
    const float* a_block = A + blockIdx.y * BM * K;
    const float* b_block = B + blockIdx.x * BN;
    float acc[TM][TN] = {};
    float frag_a[TM];
    float frag_b[TN];
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BM * BK; i += NUM_THREADS) As[i / BK][i % BK] = a_block[(i / BK) * K + k0 + i % BK];
        for (int i = tid; i < BK * BN; i += NUM_THREADS) Bs[i / BN][i % BN] = b_block[(k0 + i / BN) * N + i % BN];
        __syncthreads();
        for (int k = 0; k < BK; ++k) {
            for (int i = 0; i < TM; ++i) frag_a[i] = As[trow * TM + i][k];
            for (int j = 0; j < TN; ++j) frag_b[j] = Bs[k][tcol * TN + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i][j] += frag_a[i] * frag_b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) {
            C[(blockIdx.y * BM + trow * TM + i) * N + blockIdx.x * BN + tcol * TN + j] = acc[i][j];
        }
    }
}
