// To save registers, indices are unsigned char.
typedef unsigned char index_t;

__global__ void mm_narrow(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) {
        const index_t at = k * N + col;
        sum += A[row * K + k] * B[at];
    }
    C[row * N + col] = sum;
}
