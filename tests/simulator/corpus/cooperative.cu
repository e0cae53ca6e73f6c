#include <cooperative_groups.h>

namespace cg = cooperative_groups;

#define TILE 16

__global__ void mm_groups(const float* A, const float* B, float* C, int M, int N, int K) {
    cg::thread_block block = cg::this_thread_block();
    __shared__ float As[TILE][TILE + 1], Bs[TILE][TILE + 1];
    const dim3 t = block.thread_index(), b = block.group_index();
    const int row = b.y * TILE + t.y, col = b.x * TILE + t.x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        As[t.y][t.x] = row < M && k0 + t.x < K ? A[row * K + k0 + t.x] : 0.0f;
        Bs[t.y][t.x] = col < N && k0 + t.y < K ? B[(k0 + t.y) * N + col] : 0.0f;
        block.sync();
        for (int k = 0; k < TILE; ++k) sum += As[t.y][k] * Bs[k][t.x];
        cg::sync(block);
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
