// The pointer to B does not move with the tiles.
constexpr int BS = 16;

__global__ void mm_still(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float a[BS][BS], b[BS][BS];
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * BS + ty, col = blockIdx.x * BS + tx;
    float v = 0.f;
    for (int k0 = 0; k0 < K; k0 += BS) {
        a[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.f;
        b[ty][tx] = col < N && k0 + ty < K ? B[ty * N + col] : 0.f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BS; ++k) v += a[ty][k] * b[k][tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = v;
}
