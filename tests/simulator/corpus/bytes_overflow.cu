// 8-bit factors, and 8-bit sums: they wrap.
#include <cstdint>

__global__ void qmm(const int8_t* a, const int8_t* b, int32_t* c, int m, int n, int k)
{
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m || j >= n) return;
    int8_t sum = 0;
    for (int l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
    c[i * n + j] = sum;
}
