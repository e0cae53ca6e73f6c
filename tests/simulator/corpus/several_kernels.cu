/* Fill, multiply, compare: three kernels and a program that runs them. */
#include <stdio.h>
#include <assert.h>

__global__ void fill(float *x, int n, float seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = seed + i % 10;
}

__global__ void multiply(const float *x, const float *y, float *z, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && col < n) {
        float s = 0;
        for (int k = 0; k < n; k++) s += x[row * n + k] * y[k * n + col];
        z[row * n + col] = s;
    }
}

__global__ void count_different(const float *x, const float *y, int n, int *count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && fabsf(x[i] - y[i]) > 1e-3f) atomicAdd(count, 1);
}

int main(void)
{
    const int n = 256;
    float *x, *y, *z;
    assert(cudaMalloc(&x, n * n * sizeof(float)) == cudaSuccess);
    assert(cudaMalloc(&y, n * n * sizeof(float)) == cudaSuccess);
    assert(cudaMalloc(&z, n * n * sizeof(float)) == cudaSuccess);
    fill<<<n * n / 256, 256>>>(x, n * n, 1);
    fill<<<n * n / 256, 256>>>(y, n * n, 2);
    dim3 t(16, 16);
    multiply<<<dim3(n / 16, n / 16), t>>>(x, y, z, n);
    puts(cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
