// Two float16 elements an instruction.
#include <cuda_fp16.h>

__global__ void half_axpy(const __half2* x, __half2* y, float alpha, int pairs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pairs) {
        __half2 a = __float2half2_rn(alpha);
        y[i] = __hfma2(a, x[i], y[i]);
    }
}
