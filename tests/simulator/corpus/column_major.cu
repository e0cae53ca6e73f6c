// Column-major like BLAS: element (i, j) of a matrix with leading dimension ld is at i + j * ld.
#include <stdlib.h>
#include <cublas_v2.h>

#define IDX(i, j, ld) ((i) + (j) * (ld))

__global__ void gemm_cm(int m, int n, int k, const float *A, int lda, const float *B, int ldb, float *C, int ldc)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;   /* contiguous */
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < m && j < n) {
        float sum = 0.f;
        for (int l = 0; l < k; ++l) sum += A[IDX(i, l, lda)] * B[IDX(l, j, ldb)];
        C[IDX(i, j, ldc)] = sum;
    }
}

int compare_with_cublas(cublasHandle_t handle, int n, const float *A, const float *B, float *C)
{
    const float one = 1.f, zero = 0.f;
    gemm_cm<<<dim3((n + 31) / 32, (n + 7) / 8), dim3(32, 8)>>>(n, n, n, A, n, B, n, C, n);
    return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, A, n, B, n, &zero, C, n);
}
