// A transposition of half-precision elements, in tiles of 32 x 32 by 32 x 8 threads.
#include <cuda_fp16.h>

__global__ void transpose_half(const __half* in, __half* out, int rows, int columns) {
    __shared__ __half tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {
        int y = blockIdx.y * 32 + j;
        if (x < columns && y < rows) tile[j][threadIdx.x] = in[y * columns + x];
    }
    __syncthreads();
    int left = blockIdx.y * 32 + threadIdx.x;
    for (int top = threadIdx.y; top < 32; top += 8) {
        int y = blockIdx.x * 32 + top;
        if (left < rows && y < columns) out[y * rows + left] = tile[threadIdx.x][top];
    }
}
