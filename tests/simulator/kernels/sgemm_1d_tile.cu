// Block tiles, and a column of TM results a thread.
template <int BM, int BN, int BK, int TM>
__global__ void sgemm_1d_tile(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    const int thread_col = threadIdx.x % BN;
    const int thread_row = threadIdx.x / BN;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    const int a_col = threadIdx.x % BK, a_row = threadIdx.x / BK;
    const int b_col = threadIdx.x % BN, b_row = threadIdx.x / BN;
    float results[TM] = {0.0f};
    for (int k0 = 0; k0 < K; k0 += BK) {
        As[a_row * BK + a_col] = A[a_row * K + a_col];
        Bs[b_row * BN + b_col] = B[b_row * N + b_col];
        __syncthreads();
        A += BK;
        B += BK * N;
        for (int k = 0; k < BK; ++k) {
            float b = Bs[k * BN + thread_col];
            for (int i = 0; i < TM; ++i) results[i] += As[(thread_row * TM + i) * BK + k] * b;
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i) C[(thread_row * TM + i) * N + thread_col] = results[i];
}
