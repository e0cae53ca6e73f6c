// Threads outside of C leave before the tiles are loaded: nobody loads their elements.
#define W 16
__global__ void mm_leave(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float sa[W][W], sb[W][W];
    const int row = blockIdx.y * W + threadIdx.y, col = blockIdx.x * W + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int t = 0; t < K; t += W) {
        sa[threadIdx.y][threadIdx.x] = t + threadIdx.x < K ? A[row * K + t + threadIdx.x] : 0;
        sb[threadIdx.y][threadIdx.x] = t + threadIdx.y < K ? B[(t + threadIdx.y) * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < W; ++k) sum += sa[threadIdx.y][k] * sb[k][threadIdx.x];
        __syncthreads();
    }
    C[row * N + col] = sum;
}
