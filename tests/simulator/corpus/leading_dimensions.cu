// Matrices inside larger ones: each has a leading dimension of its own.
#include <cuda_runtime.h>

__global__ void sgemm_ld(int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                         float* c, int ldc)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0.f;
    for (int i = 0; i < k; ++i) sum = __fmaf_rn(a[(size_t)row * lda + i], b[(size_t)i * ldb + col], sum);
    float* out = c + (size_t)row * ldc + col;
    *out = beta == 0.f ? alpha * sum : alpha * sum + beta * *out;
}
