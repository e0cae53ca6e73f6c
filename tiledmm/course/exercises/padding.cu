// tiledmm: grid=(N+31)/32,(M+31)/32 block=32,32
__global__ void padding(const float* A, const float* B, float* C, int M, int N, int K) {
    //[start]
    // TODO: choose the tiles' rows such that neither a write nor a read has a bank conflict.
    __shared__ float As[32][32], Bs[32][32];
    //[solution]
    __shared__ float As[32][32], Bs[32][32 + 1];  // rows of Bs begin in successive banks
    //[end]
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx, col_b = blockIdx.x * 32 + ty;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 32) {
        As[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0;
        Bs[ty][tx] = col_b < N && k0 + tx < K ? B[col_b * K + k0 + tx] : 0;
        __syncthreads();
        for (int k = 0; k < 32; ++k) sum += As[ty][k] * Bs[tx][k];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
