// 8-bit integers, four at a time: A is (M, K), B is transposed, (N, K). K is a multiple of 4.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void igemm_nt(const int8_t* __restrict__ a, const int8_t* __restrict__ b, int32_t* __restrict__ c,
                         int m, int n, int k)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    const int* a4 = reinterpret_cast<const int*>(a + row * k);
    const int* b4 = reinterpret_cast<const int*>(b + col * k);
    int32_t sum = 0;
    for (int i = 0; i < k / 4; ++i) sum = __dp4a(a4[i], b4[i], sum);
    c[row * n + col] = sum;
}
