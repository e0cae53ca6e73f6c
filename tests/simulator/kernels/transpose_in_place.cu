// Blocks on and below the diagonal exchange two tiles.
__global__ void transpose_in_place(float* a, int n) {
    __shared__ float upper[8][9], lower[8][9];
    int bx = blockIdx.x, by = blockIdx.y;
    if (bx > by) return;
    int tx = threadIdx.x, ty = threadIdx.y;
    lower[ty][tx] = a[(by * 8 + ty) * n + bx * 8 + tx];
    upper[ty][tx] = a[(bx * 8 + ty) * n + by * 8 + tx];
    __syncthreads();
    a[(bx * 8 + ty) * n + by * 8 + tx] = lower[tx][ty];
    if (bx != by) a[(by * 8 + ty) * n + bx * 8 + tx] = upper[tx][ty];
}
