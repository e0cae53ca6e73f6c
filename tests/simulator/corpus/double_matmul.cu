#include <cuda.h>
#include <stdio.h>

typedef double real;

/* dgemm, the plain way */
extern "C" __global__ void dmm(const real *a, const real *b, real *c, int m, int n, int k)
{
    int i = blockDim.y * blockIdx.y + threadIdx.y;
    int j = blockDim.x * blockIdx.x + threadIdx.x;
    int l;
    real s = 0.0;
    if (i < m && j < n) {
        for (l = 0; l < k; l++) s += a[i * k + l] * b[l * n + j];
        c[i * n + j] = s;
    }
}

int main()
{
    const int n = 96;
    size_t bytes = n * n * sizeof(real);
    real *a, *b, *c;
    cudaMalloc((void**)&a, bytes); cudaMalloc((void**)&b, bytes); cudaMalloc((void**)&c, bytes);
    cudaMemset(a, 0, bytes); cudaMemset(b, 0, bytes);
    dmm<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(a, b, c, n, n, n);
    cudaThreadSynchronize();
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    return 0;
}
