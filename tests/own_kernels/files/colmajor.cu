#include <stdio.h>
#define IDX2C(i,j,ld) (((j)*(ld))+(i))
__global__ void gemm_cm(int m, int n, int k, float alpha, const float *A, int lda, const float *B, int ldb, float beta, float *C, int ldc) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < m && j < n) {
        float s = 0.f;
        for (int p = 0; p < k; p++) s += A[IDX2C(i, p, lda)] * B[IDX2C(p, j, ldb)];
        C[IDX2C(i, j, ldc)] = alpha * s + beta * C[IDX2C(i, j, ldc)];
    }
}
void launch(int m, int n, int k, const float *A, const float *B, float *C) {
    dim3 t(16, 16), g((m + 15) / 16, (n + 15) / 16);
    gemm_cm<<<g, t>>>(m, n, k, 1.0f, A, m, B, k, 0.0f, C, m);
}
