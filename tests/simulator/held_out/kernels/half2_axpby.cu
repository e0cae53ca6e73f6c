// z = a x + b y in half precision, two numbers at a time; the last one alone where n is odd.
#include <cuda_fp16.h>

__global__ void half2_axpby(const __half* x, const __half* y, __half* z, float a, float b, int n) {
    __half2 aa = __float2half2_rn(a);
    __half2 bb = __float2half2_rn(b);
    const __half2* x2 = reinterpret_cast<const __half2*>(x);
    const __half2* y2 = reinterpret_cast<const __half2*>(y);
    __half2* z2 = reinterpret_cast<__half2*>(z);
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < n / 2; i += gridDim.x * blockDim.x) {
        z2[i] = __hfma2(aa, x2[i], __hmul2(bb, y2[i]));
    }
    if (first == 0 && n % 2 == 1) {
        z[n - 1] = __float2half(a * __half2float(x[n - 1]) + b * __half2float(y[n - 1]));
    }
}
