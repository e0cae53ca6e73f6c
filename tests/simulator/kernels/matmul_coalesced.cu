// Neighbouring threads compute neighbouring columns, in a block of one dimension.
#define BLOCKSIZE 16

__global__ void matmul_coalesced(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    const int row = blockIdx.x * BLOCKSIZE + threadIdx.x / BLOCKSIZE;
    const int col = blockIdx.y * BLOCKSIZE + threadIdx.x % BLOCKSIZE;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = alpha * sum + beta * C[row * N + col];
}
