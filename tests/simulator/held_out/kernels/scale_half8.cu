// Eight half-precision elements at a time, and the rest one by one.
#include <cuda_fp16.h>

__global__ void scale_half8(const __half* x, __half* y, float factor, int n) {
    int i = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 8 <= n) {
        uint4 bits = *reinterpret_cast<const uint4*>(x + i);
        __half2* pairs = reinterpret_cast<__half2*>(&bits);
        for (int p = 0; p < 4; ++p) {
            float2 f = __half22float2(pairs[p]);
            pairs[p] = __floats2half2_rn(factor * f.x, factor * f.y);
        }
        *reinterpret_cast<uint4*>(y + i) = bits;
    } else {
        for (int j = i; j < n; ++j) y[j] = __float2half(factor * __half2float(x[j]));
    }
}
