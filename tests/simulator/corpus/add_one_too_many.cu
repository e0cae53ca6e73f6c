#include <stdio.h>
// i <= n: one thread too many
__global__ void add(float *a, float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) c[i] = a[i] + b[i];
}

int main() { puts("vector addition"); return 0; }
