// Loads and stores of float4; A is transposed on its way to shared memory.
#define BM 32
#define BN 32
#define BK 8
#define TM 4
#define TN 4

__global__ void sgemm_vectorized(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[BK * BM];
    __shared__ float Bs[BK * BN];
    const int tid = threadIdx.x;   // 64 threads
    const int trow = tid / (BN / TN), tcol = tid % (BN / TN);
    const int a_row = tid / (BK / 4), a_col = tid % (BK / 4);
    const int b_row = tid / (BN / 4), b_col = tid % (BN / 4);
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float acc[TM * TN] = {0.0f};
    float a[TM], b[TN];
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4 t = *reinterpret_cast<const float4*>(&A[a_row * K + a_col * 4]);
        As[(a_col * 4 + 0) * BM + a_row] = t.x;
        As[(a_col * 4 + 1) * BM + a_row] = t.y;
        As[(a_col * 4 + 2) * BM + a_row] = t.z;
        As[(a_col * 4 + 3) * BM + a_row] = t.w;
        *reinterpret_cast<float4*>(&Bs[b_row * BN + b_col * 4]) =
            *reinterpret_cast<const float4*>(&B[b_row * N + b_col * 4]);
        __syncthreads();
        A += BK;
        B += BK * N;
        for (int k = 0; k < BK; ++k) {
            for (int i = 0; i < TM; ++i) a[i] = As[k * BM + trow * TM + i];
            for (int j = 0; j < TN; ++j) b[j] = Bs[k * BN + tcol * TN + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i * TN + j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i) {
        float4 t = make_float4(acc[i * TN], acc[i * TN + 1], acc[i * TN + 2], acc[i * TN + 3]);
        *reinterpret_cast<float4*>(&C[(trow * TM + i) * N + tcol * TN]) = t;
    }
}
