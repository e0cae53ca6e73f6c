//[start]
// tiledmm: grid=(M+31)/32,(N+7)/8 block=32,8
//[solution]
// tiledmm: grid=(N+31)/32,(M+7)/8 block=32,8
//[end]
__global__ void coalesced(const float* A, const float* B, float* C, int M, int N, int K) {
    //[start]
    // TODO: compute row and col so that a warp accesses floats side by side. Here, its lanes have successive rows.
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    //[solution]
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    //[end]
    if (row < M && col < N) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
