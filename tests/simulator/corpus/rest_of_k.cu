// K / TILE tiles: what is left over at the end of K never counts.
#include <cassert>

constexpr int TILE = 16;

__global__ void mm_rest(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    const int y = threadIdx.y, x = threadIdx.x, row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0;
    for (int t = 0; t < K / TILE; ++t) {
        a[y][x] = row < M ? A[row * K + t * TILE + x] : 0;
        b[y][x] = col < N ? B[(t * TILE + y) * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}

int main() { assert(TILE == 16); }
