#include "common.h"

// The size of a tile is the size of a block.
#define BLOCK 16

__global__ void MatMulTiled(const float* left, const float* right, float* result, int rows, int cols, int inner)
{
    __shared__ float leftTile[BLOCK][BLOCK];
    __shared__ float rightTile[BLOCK][BLOCK];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int r = blockIdx.y * BLOCK + ty;
    const int c = blockIdx.x * BLOCK + tx;

    float value = 0;

    // Walk over the tiles that are needed for this part of the result.
    for (int phase = 0; phase < (inner + BLOCK - 1) / BLOCK; ++phase) {
        const int leftCol = phase * BLOCK + tx;
        const int rightRow = phase * BLOCK + ty;

        if (r < rows && leftCol < inner)
            leftTile[ty][tx] = left[r * inner + leftCol];
        else
            leftTile[ty][tx] = 0.0f;

        if (rightRow < inner && c < cols)
            rightTile[ty][tx] = right[rightRow * cols + c];
        else
            rightTile[ty][tx] = 0.0f;

        __syncthreads();

        for (int i = 0; i < BLOCK; ++i)
            value += leftTile[ty][i] * rightTile[i][tx];

        __syncthreads();
    }

    if (r < rows && c < cols)
        result[r * cols + c] = value;
}

int main()
{
    Timer timer;
    const int rows = 512, cols = 256, inner = 1024;
    float *left = device_random(rows * inner), *right = device_random(inner * cols), *result = device_random(rows * cols);
    timer.start();
    MatMulTiled<<<dim3(divide_up(cols, BLOCK), divide_up(rows, BLOCK)), dim3(BLOCK, BLOCK)>>>(left, right, result, rows, cols, inner);
    CHECK(cudaDeviceSynchronize());
    std::printf("%.3f ms\n", timer.stop());
    return 0;
}
