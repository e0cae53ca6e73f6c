#include <stdio.h>
#include <math.h>
#include <time.h>
#define TILE_WIDTH 16
#define N 512
#define CHECK(call) \
{ \
    const cudaError_t error = call; \
    if (error != cudaSuccess) { \
        printf("Error: %s:%d\n", __FILE__, __LINE__); \
        exit(1); \
    } \
}

__global__ void MatrixMulKernel(float* M_d, float* N_d, float* P_d, int Width) {
    int Row = blockIdx.y * TILE_WIDTH + threadIdx.y;
    int Col = blockIdx.x * TILE_WIDTH + threadIdx.x;
    if ((Row < Width) && (Col < Width)) {
        float Pvalue = 0;
        for (int k = 0; k < Width; ++k) Pvalue += M_d[Row * Width + k] * N_d[k * Width + Col];
        P_d[Row * Width + Col] = Pvalue;
    }
}
int main(void) {
    float *a, *b, *c, *d_a, *d_b, *d_c;
    int size = N * N * sizeof(float);
    CHECK(cudaMalloc((void **)&d_a, size));
    CHECK(cudaMalloc((void **)&d_b, size));
    CHECK(cudaMalloc((void **)&d_c, size));
    a = (float *)malloc(size);
    dim3 dimGrid(ceil(N / (float)TILE_WIDTH), ceil(N / (float)TILE_WIDTH), 1);
    dim3 dimBlock(TILE_WIDTH, TILE_WIDTH, 1);
    MatrixMulKernel<<<dimGrid, dimBlock>>>(d_a, d_b, d_c, N);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
