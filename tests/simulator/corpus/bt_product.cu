// scores = Q * K^T: both factors have contiguous rows along the inner dimension.
#include <cuda_runtime.h>

__global__ void scores_kernel(const float* Q, const float* Keys, float* S, int nq, int nk, int dim)
{
    extern __shared__ float q[];   // one row of Q
    const int row = blockIdx.y;
    for (int i = threadIdx.x; i < dim; i += blockDim.x) q[i] = Q[row * dim + i];
    __syncthreads();
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col < nk) {
        float dot = 0.f;
        for (int i = 0; i < dim; ++i) dot = fmaf(q[i], Keys[col * dim + i], dot);
        S[row * nk + col] = dot;
    }
}

extern "C" void scores(const float* q, const float* k, float* s, int nq, int nk, int dim, cudaStream_t stream)
{
    const dim3 grid((nk + 63) / 64, nq);
    scores_kernel<<<grid, 64, dim * sizeof(float), stream>>>(q, k, s, nq, nk, dim);
}
