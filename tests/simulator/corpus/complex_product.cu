// Complex numbers as float2.
#include <cuComplex.h>

__global__ void cgemm(const cuFloatComplex* a, const cuFloatComplex* b, cuFloatComplex* c, int m, int n, int k)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m || j >= n) return;
    cuFloatComplex s = make_cuFloatComplex(0.f, 0.f);
    for (int l = 0; l < k; ++l) s = cuCaddf(s, cuCmulf(a[i * k + l], b[l * n + j]));
    c[i * n + j] = s;
}
