#include <cuda_runtime.h>

__global__ void gemm_short(const double* x, const double* y, double* z, int m, int n, int k)
{
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m || j >= n) return;
    double s = 0;
    for (int l = 0; l < k - 1; ++l) s += x[i * k + l] * y[l * n + j];   // wrong: the last product is missing
    z[i * n + j] = s;
}
