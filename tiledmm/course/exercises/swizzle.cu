// tiledmm: grid=(N+31)/32,(M+31)/32 block=32,8
__global__ void swizzle(const float* A, float* T, int M, int N) {
    __shared__ float tile[32][32];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32, col = blockIdx.x * 32;
    //[start]
    // TODO: store each element in another column of its row of the tile, so that no access conflicts.
    for (int i = ty; i < 32; i += 8)
        if (row + i < M && col + tx < N) tile[i][tx] = A[(row + i) * N + col + tx];
    __syncthreads();
    for (int i = ty; i < 32; i += 8)
        if (col + i < N && row + tx < M) T[(col + i) * M + row + tx] = tile[tx][i];
    //[solution]
    for (int i = ty; i < 32; i += 8)
        if (row + i < M && col + tx < N) tile[i][tx ^ i] = A[(row + i) * N + col + tx];
    __syncthreads();
    for (int i = ty; i < 32; i += 8)
        if (col + i < N && row + tx < M) T[(col + i) * M + row + tx] = tile[tx][i ^ tx];
    //[end]
}
