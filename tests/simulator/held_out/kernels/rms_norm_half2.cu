// Rows of halves divided by their root mean square and multiplied by weights: a block of three warps per row.
#include <cuda_fp16.h>

__global__ void rms_norm_half2(const half2* x, const half2* w, half2* y, int pairs, float eps) {
    __shared__ float part[3];
    __shared__ float scale;
    const half2* in = x + blockIdx.x * pairs;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        float2 v = __half22float2(in[i]);
        sum += v.x * v.x + v.y * v.y;
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();  // parts
    if (threadIdx.x == 0) scale = rsqrtf((part[0] + part[1] + part[2]) / (2 * pairs) + eps);
    __syncthreads();  // scale
    for (int j = threadIdx.x; j < pairs; j += blockDim.x) {
        float2 v = __half22float2(in[j]), g = __half22float2(w[j]);
        y[blockIdx.x * pairs + j] = __floats2half2_rn(v.x * scale * g.x, v.y * scale * g.y);
    }
}
