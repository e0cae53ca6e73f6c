#include <cuda_pipeline.h>

// Begin to copy a float to shared memory, and do not wait for it. If `inside` is false, the copy writes zero.
__device__ void begin_copy(float* to, const float* from, bool inside) {
    __pipeline_memcpy_async(to, from, 4, inside ? 0 : 4);
}

// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16
__global__ void double_buffer(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[2][16][16], Bs[2][16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0;

    // Begin to copy the tiles of step k0 to buffer `at`.
    auto begin = [&](int k0, int at) {
        //[start]
        // TODO: use begin_copy here. An element outside of the matrix has no address: pass A or B instead.
        As[at][ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0;
        Bs[at][ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0;
        //[solution]
        bool has_a = row < M && k0 + tx < K, has_b = k0 + ty < K && col < N;
        begin_copy(&As[at][ty][tx], has_a ? &A[row * K + k0 + tx] : A, has_a);
        begin_copy(&Bs[at][ty][tx], has_b ? &B[(k0 + ty) * N + col] : B, has_b);
        __pipeline_commit();
        //[end]
    };

    //[start]
    // TODO: begin to copy the tiles of the next step before this step multiplies, and wait for this step's tiles.
    for (int k0 = 0, now = 0; k0 < K; k0 += 16, now ^= 1) {
        begin(k0, now);
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += As[now][ty][k] * Bs[now][k][tx];
    }
    //[solution]
    begin(0, 0);
    for (int k0 = 0, now = 0; k0 < K; k0 += 16, now ^= 1) {
        __pipeline_wait_prior(0);  // this thread's copies have arrived
        __syncthreads();           // those of all threads have, and no thread reads the other buffer any more
        if (k0 + 16 < K) begin(k0 + 16, now ^ 1);
        for (int k = 0; k < 16; ++k) sum += As[now][ty][k] * Bs[now][k][tx];
    }
    //[end]
    if (row < M && col < N) C[row * N + col] = sum;
}
