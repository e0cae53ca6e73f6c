// Differences to the next number in chunks of 128, the last to the first. A chunk is copied while one is used.
#include <cuda_pipeline.h>

#define CHUNK 128

__global__ void chunk_pipeline(const float* x, float* out, int chunks) {
    __shared__ __align__(16) float stage[2][CHUNK];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&stage[0][2 * t], &x[2 * t], 8);
    __pipeline_commit();
    for (int c = 0; c < chunks; c++) {
        if (c + 1 < chunks) {
            __pipeline_memcpy_async(&stage[(c + 1) % 2][2 * t], &x[(c + 1) * CHUNK + 2 * t], 8);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();  // chunk c is here
        for (int i = t; i < CHUNK; i += blockDim.x) {
            out[c * CHUNK + i] = stage[c % 2][(i + 1) % CHUNK] - stage[c % 2][i];
        }
        __syncthreads();  // chunk c is used
    }
}
