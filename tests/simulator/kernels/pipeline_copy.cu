// Stages through shared memory by __pipeline_memcpy_async.
#include <cuda_pipeline.h>

#define STAGES 2

__global__ void pipeline_copy(const float* in, float* out, int tiles) {
    __shared__ float stage[STAGES][64];
    int tid = threadIdx.x;
    const float* mine = in + blockIdx.x * tiles * 64;
    __pipeline_memcpy_async(&stage[0][tid], &mine[tid], sizeof(float));
    __pipeline_commit();
    float sum = 0.0f;
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) {
            __pipeline_memcpy_async(&stage[(t + 1) % STAGES][tid], &mine[(t + 1) * 64 + tid], sizeof(float));
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += stage[t % STAGES][63 - tid];
        __syncthreads();
    }
    out[blockIdx.x * 64 + tid] = sum;
}
