// The sum of each row, by a tree in shared memory.
#include <iostream>
#define THREADS 128

__global__ void row_sums(const float* x, float* sums, int rows, int cols)
{
    __shared__ float part[THREADS];
    const int row = blockIdx.x;
    float own = 0.f;
    for (int i = threadIdx.x; i < cols; i += THREADS) own += x[row * cols + i];
    part[threadIdx.x] = own;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[row] = part[0];
}

int main() { std::cout << "kernel only\n"; }
