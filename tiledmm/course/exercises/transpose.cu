// tiledmm: grid=(N+31)/32,(M+31)/32 block=32,8
__global__ void transpose(const float* A, float* T, int M, int N) {
    //[start]
    // TODO: copy through a tile in shared memory, so that reads and writes of global memory are contiguous.
    // Here, the lanes of a warp write down a column of T: each lane writes to another row of T.
    int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    for (int i = 0; i < 32; i += 8)
        if (row + i < M && col < N) T[col * M + row + i] = A[(row + i) * N + col];
    //[solution]
    __shared__ float tile[32][32 + 1];  // rows begin in successive banks
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32, col = blockIdx.x * 32;
    for (int i = ty; i < 32; i += 8)
        if (row + i < M && col + tx < N) tile[i][tx] = A[(row + i) * N + col + tx];
    __syncthreads();  // the tile is complete
    for (int i = ty; i < 32; i += 8)
        if (col + i < N && row + tx < M) T[(col + i) * M + row + tx] = tile[tx][i];
    //[end]
}
