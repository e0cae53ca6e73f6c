// Through a tile whose columns are permuted by exclusive or, without padding.
__global__ void transpose_swizzled(const int* in, int* out, int n) {
    __shared__ int tile[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * 16, y = blockIdx.y * 16;
    tile[ty][tx ^ ty] = in[(y + ty) * n + x + tx];
    __syncthreads();
    out[(x + ty) * n + y + tx] = tile[tx][ty ^ tx];
}
