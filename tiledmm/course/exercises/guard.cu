// tiledmm: grid=(M+31)/32,(N+7)/8 block=32,8
__global__ void guard(const float* A, const float* bias, float* C, int M, int N) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    //[start]
    if (row > M) return;
    //[solution]
    if (row >= M || col >= N) return;
    //[end]
    C[row * N + col] = A[row * N + col] + bias[col];
}
