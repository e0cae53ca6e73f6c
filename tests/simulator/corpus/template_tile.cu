// The tile is a template parameter, so that the inner loop is unrolled.
#include <cassert>
#include <iostream>
#include <memory>

template <int TILE, typename T>
__global__ void matmul(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int m, int n, int k)
{
    __shared__ T sa[TILE][TILE];
    __shared__ T sb[TILE][TILE];
    const int col = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    T sum{};
    for (int base = 0; base < k; base += TILE) {
        sa[threadIdx.y][threadIdx.x] = row < m && base + threadIdx.x < k ? a[row * k + base + threadIdx.x] : T{};
        sb[threadIdx.y][threadIdx.x] = base + threadIdx.y < k && col < n ? b[(base + threadIdx.y) * n + col] : T{};
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += sa[threadIdx.y][i] * sb[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

template <int TILE, typename T>
void launch(const T* a, const T* b, T* c, int m, int n, int k, cudaStream_t stream = nullptr)
{
    const dim3 block(TILE, TILE), grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
    matmul<TILE><<<grid, block, 0, stream>>>(a, b, c, m, n, k);
    assert(cudaPeekAtLastError() == cudaSuccess);
}

template __global__ void matmul<16, float>(const float*, const float*, float*, int, int, int);

int main()
{
    struct Free { void operator()(float* p) const { cudaFree(p); } };
    const auto make = [](int count) {
        float* p = nullptr;
        cudaMalloc(&p, count * sizeof(float));
        return std::unique_ptr<float, Free>(p);
    };
    auto a = make(64 * 64), b = make(64 * 64), c = make(64 * 64);
    launch<16>(a.get(), b.get(), c.get(), 64, 64, 64);
    cudaDeviceSynchronize();
    std::cout << "done" << std::endl;
}
