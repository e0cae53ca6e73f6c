// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16
__global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K) {
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0;
    //[start]
    // TODO: for every 16 steps of k, copy a tile of A and a tile of B to shared memory, and multiply from there.
    // Here, every multiply-add loads two elements from global memory.
    if (row < M && col < N)
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    //[solution]
    __shared__ float As[16][16], Bs[16][16];
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0;
        Bs[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0;
        __syncthreads();  // both tiles are complete
        for (int k = 0; k < 16; ++k) sum += As[ty][k] * Bs[k][tx];
        __syncthreads();  // no thread reads the tiles any more
    }
    //[end]
    if (row < M && col < N) C[row * N + col] = sum;
}
