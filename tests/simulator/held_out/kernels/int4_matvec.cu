// A matrix of four-bit weights times a vector: groups of 32 weights have a scale and a zero point; a warp per row.
#include <cuda_fp16.h>

__global__ void int4_matvec(const uint4* packed, const half* scales, const unsigned char* zeros, const float* x,
                            float* y, int rows, int groups) {
    int lane = threadIdx.x % 32;
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int g = lane; g < groups; g += 32) {
        uint4 four = packed[row * groups + g];
        unsigned words[4] = {four.x, four.y, four.z, four.w};
        int zero = zeros[row * groups + g];
        float part = 0.0f;
        for (int j = 0; j < 32; j++) {
            int weight = (int)(words[j / 8] >> 4 * (j % 8) & 15) - zero;
            part += weight * x[g * 32 + j];
        }
        sum += part * __half2float(scales[row * groups + g]);
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, offset);
    if (lane == 0) y[row] = sum;
}
