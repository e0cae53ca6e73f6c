// y = max(x + bias, 0) in bfloat16, in pairs; the bias repeats with each row.
#include <cuda_bf16.h>

__global__ void bf16_bias(const __nv_bfloat162* x, const __nv_bfloat162* bias, __nv_bfloat162* y, int rows, int pairs) {
    int pair = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (pair >= pairs || row >= rows) return;
    __nv_bfloat162 v = x[row * pairs + pair];
    __nv_bfloat162 b = bias[pair];
    float low = __low2float(v) + __low2float(b);
    float high = __high2float(v) + __high2float(b);
    y[row * pairs + pair] = __floats2bfloat162_rn(fmaxf(low, 0.0f), fmaxf(high, 0.0f));
}
