// y = A x, a warp per row, float4 loads where the row allows.
#include <cuda_runtime.h>
#include <cstdint>

__global__ void gemv(const float* __restrict__ A, const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    const int lane = threadIdx.x & 31, row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row >= rows) return;
    const float* a = A + (size_t)row * cols;
    float sum = 0.f;
    if (cols % 4 == 0 && reinterpret_cast<uintptr_t>(a) % 16 == 0) {
        for (int i = lane * 4; i < cols; i += 128) {
            const float4 p = *reinterpret_cast<const float4*>(a + i), q = *reinterpret_cast<const float4*>(x + i);
            sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
        }
    } else {
        for (int i = lane; i < cols; i += 32) sum += a[i] * x[i];
    }
    for (int o = 16; o; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (!lane) y[row] = sum;
}
