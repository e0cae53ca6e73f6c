//[start]
// tiledmm: grid=(M+31)/32,(N+7)/8 block=32,8
//[solution]
// tiledmm: grid=(N+31)/32,(M+7)/8 block=32,8
//[end]
__global__ void copy_columns(const float* A, float* B, int M, int N) {
    //[start]
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    //[solution]
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    //[end]
    if (row < M && col < N) B[row * N + col] = A[row * N + col];
}
