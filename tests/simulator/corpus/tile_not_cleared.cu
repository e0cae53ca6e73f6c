// The rest of K is loaded only if it is there; what the tiles held before is still in them.
#define T 16

__global__ void mm_leftover(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[T][T];
    __shared__ float Bs[T][T];
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (K + T - 1) / T; t++) {
        if (row < M && t * T + threadIdx.x < K) As[threadIdx.y][threadIdx.x] = A[row * K + t * T + threadIdx.x];
        if (col < N && t * T + threadIdx.y < K) Bs[threadIdx.y][threadIdx.x] = B[(t * T + threadIdx.y) * N + col];
        __syncthreads();
        for (int k = 0; k < T; k++) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
