// Softmax of rows of half-precision elements, two at a time; a block for each row.
#include <cuda_fp16.h>

__device__ float block_reduce(float v, bool maximum) {
    __shared__ float parts[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int o = 16; o > 0; o >>= 1) {
        float u = __shfl_down_sync(0xffffffffu, v, o);
        v = maximum ? fmaxf(v, u) : v + u;
    }
    __syncthreads();  // the parts of the reduction before are read
    if (lane == 0) parts[warp] = v;
    __syncthreads();  // the parts of this one are there
    int warps = blockDim.x >> 5;
    v = parts[0];
    for (int i = 1; i < warps; ++i) v = maximum ? fmaxf(v, parts[i]) : v + parts[i];
    return v;
}

__global__ void softmax_half(const __half* x, __half* y, int columns) {
    const __half2* in = reinterpret_cast<const __half2*>(x + blockIdx.x * columns);
    __half2* out = reinterpret_cast<__half2*>(y + blockIdx.x * columns);
    float best = -INFINITY;
    for (int i = threadIdx.x; i < columns / 2; i += blockDim.x) {
        float2 v = __half22float2(in[i]);
        best = fmaxf(best, fmaxf(v.x, v.y));
    }
    best = block_reduce(best, true);
    float sum = 0;
    for (int i = threadIdx.x; i < columns / 2; i += blockDim.x) {
        float2 v = __half22float2(in[i]);
        sum += expf(v.x - best) + expf(v.y - best);
    }
    sum = block_reduce(sum, false);
    for (int i = threadIdx.x; i < columns / 2; i += blockDim.x) {
        float2 v = __half22float2(in[i]);
        out[i] = __floats2half2_rn(expf(v.x - best) / sum, expf(v.y - best) / sum);
    }
}
