// y = a * max(b, 0) + b in bfloat16, two numbers at a time; the last of an odd row alone.
#include <cuda_bf16.h>

__global__ void bf16_gate(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* y, int n, int pitch) {
    a += blockIdx.y * pitch;
    b += blockIdx.y * pitch;
    y += blockIdx.y * pitch;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) {
        __nv_bfloat162 two = reinterpret_cast<const __nv_bfloat162*>(a)[i];
        __nv_bfloat162 gate = reinterpret_cast<const __nv_bfloat162*>(b)[i];
        __nv_bfloat162 open = __hmax2(gate, __float2bfloat162_rn(0.0f));
        reinterpret_cast<__nv_bfloat162*>(y)[i] = __hfma2(two, open, gate);
    }
    if (i == 0 && n % 2 == 1) {
        float one = __bfloat162float(a[n - 1]), gate = __bfloat162float(b[n - 1]);
        y[n - 1] = __float2bfloat16(one * fmaxf(gate, 0.0f) + gate);
    }
}
