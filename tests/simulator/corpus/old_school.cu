/* Written for the first cards: no references, no caches, 24-bit multiplications. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

#define BLOCK_SIZE 16
#define AS(i, j) As[i][j]
#define BS(i, j) Bs[i][j]

#define SAFE_CALL(call) { cudaError err = call; if (cudaSuccess != err) { \
    fprintf(stderr, "Cuda error in file '%s' in line %i : %s.\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
    exit(EXIT_FAILURE); } }

__global__ void matrixMul(float* C, float* A, float* B, int wA, int wB)
{
    int bx = blockIdx.x;
    int by = blockIdx.y;
    int tx = threadIdx.x;
    int ty = threadIdx.y;

    int aBegin = __mul24(wA, BLOCK_SIZE) * by;      /* first tile of A of this block */
    int aEnd = aBegin + wA - 1;
    int bBegin = BLOCK_SIZE * bx;
    int bStep = BLOCK_SIZE * wB;
    int a, b, k;
    float Csub = 0;

    for (a = aBegin, b = bBegin; a <= aEnd; a += BLOCK_SIZE, b += bStep) {
        __shared__ float As[BLOCK_SIZE][BLOCK_SIZE];
        __shared__ float Bs[BLOCK_SIZE][BLOCK_SIZE];

        AS(ty, tx) = A[a + wA * ty + tx];
        BS(ty, tx) = B[b + wB * ty + tx];
        __syncthreads();
        for (k = 0; k < BLOCK_SIZE; ++k)
            Csub += AS(ty, k) * BS(k, tx);
        __syncthreads();
    }
    C[wB * BLOCK_SIZE * by + BLOCK_SIZE * bx + wB * ty + tx] = Csub;
}

int main(int argc, char** argv)
{
    float *d_A, *d_B, *d_C;
    unsigned int n = 256, bytes = n * n * sizeof(float);
    float* h = (float*)malloc(bytes);
    SAFE_CALL(cudaMalloc((void**)&d_A, bytes));
    SAFE_CALL(cudaMalloc((void**)&d_B, bytes));
    SAFE_CALL(cudaMalloc((void**)&d_C, bytes));
    dim3 threads(BLOCK_SIZE, BLOCK_SIZE);
    dim3 grid(n / threads.x, n / threads.y);
    matrixMul<<<grid, threads>>>(d_C, d_A, d_B, n, n);
    cudaThreadSynchronize();
    SAFE_CALL(cudaMemcpy(h, d_C, bytes, cudaMemcpyDeviceToHost));
    printf("Test %s\n", fabs(h[0]) < 1e30 ? "PASSED" : "FAILED");
    free(h);
    cudaThreadExit();
}
