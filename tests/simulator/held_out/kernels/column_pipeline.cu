// Sums of columns: rows come by asynchronous copies, two ahead. Each thread adds what another has copied.
#include <cuda_pipeline.h>
#define STAGES 3
#define WIDTH 256

__global__ void column_pipeline(const float* in, float* sums, int rows) {
    __shared__ __align__(16) float stage[STAGES][WIDTH];
    int to = 4 * threadIdx.x;
    int from = WIDTH - 4 - to;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int r = 0; r < STAGES - 1; ++r) {
        if (r < rows) __pipeline_memcpy_async(&stage[r][to], &in[r * WIDTH + to], 16);
        __pipeline_commit();  // of the first rows
    }
    for (int r = 0; r < rows; ++r) {
        int ahead = r + STAGES - 1;
        if (ahead < rows) {
            __pipeline_memcpy_async(&stage[ahead % STAGES][to], &in[ahead * WIDTH + to], 16);
        }
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 1);
        __syncthreads();  // row r is there
        float4 v = *reinterpret_cast<const float4*>(&stage[r % STAGES][from]);
        sum.x += v.x;
        sum.y += v.y;
        sum.z += v.z;
        sum.w += v.w;
        __syncthreads();  // row r is read
    }
    *reinterpret_cast<float4*>(&sums[from]) = sum;
}
