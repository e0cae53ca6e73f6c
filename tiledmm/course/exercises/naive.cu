// tiledmm: grid=(M+31)/32,(N+7)/8 block=32,8
__global__ void naive(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    //[start]
    // TODO: add the K products of row `row` of A and column `col` of B.
    float sum = 0;
    //[solution]
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    //[end]
    C[row * N + col] = sum;
}
