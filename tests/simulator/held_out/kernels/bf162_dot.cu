// Dot products of rows of bfloat16 pairs with a vector of pairs: a group of eight threads per row.
#include <cuda_bf16.h>

__global__ void bf162_dot(const __nv_bfloat162* a, const __nv_bfloat162* v, float* out, int rows, int pairs) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 8, part = threadIdx.x % 8;
    float sum = 0.0f;
    if (row < rows) {
        for (int i = part; i < pairs; i += 8) {
            __nv_bfloat162 p = a[row * pairs + i], q = v[i];
            sum += __low2float(p) * __low2float(q) + __high2float(p) * __high2float(q);
        }
    }
    for (int offset = 4; offset > 0; offset /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, offset, 8);
    if (row < rows && part == 0) out[row] = sum;
}
