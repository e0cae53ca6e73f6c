// A batch of products, one per blockIdx.z; the matrices of a batch lie one after the other.
#include <cuda_runtime.h>
#include <vector>

__global__ void bmm(const float* a, const float* b, float* c, int m, int n, int k, int batch)
{
    int z = blockIdx.z;
    if (z >= batch) return;
    a += (size_t)z * m * k;
    b += (size_t)z * k * n;
    c += (size_t)z * m * n;
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && col < n) {
        float acc = 0.f;
        for (int i = 0; i < k; ++i) acc += a[row * k + i] * b[i * n + col];
        c[row * n + col] = acc;
    }
}

void bmm_forward(const float* a, const float* b, float* c, int m, int n, int k, int batch)
{
    dim3 threads(8, 8);
    dim3 blocks((n + 7) / 8, (m + 7) / 8, batch);
    bmm<<<blocks, threads>>>(a, b, c, m, n, k, batch);
}
