// C++17: everything that can be known is known when it is compiled.
#include <array>
#include <cuda_runtime.h>
#include <string_view>
#include <type_traits>

namespace config {
inline constexpr int tile_m = 32, tile_n = 16, tile_k = 8;
inline constexpr int threads = 128;
static_assert(tile_m * tile_n % threads == 0, "a whole number of elements per thread");
}

template <typename T, bool TransposeB>
__device__ auto element_of_b(const T* b, int k, int col, int n, int depth) -> T
{
    if constexpr (TransposeB)
        return b[col * depth + k];
    else
        return b[k * n + col];
}

template <typename T, bool TransposeB = false>
__global__ void modern_gemm(const T* a, const T* b, T* c, int m, int n, int k)
{
    using namespace config;
    constexpr int each = tile_m * tile_n / threads;
    __shared__ T sa[tile_m][tile_k], sb[tile_k][tile_n];
    const auto row0 = static_cast<int>(blockIdx.y) * tile_m, col0 = static_cast<int>(blockIdx.x) * tile_n;
    const auto tid = static_cast<int>(threadIdx.x);
    T sums[each]{};
    for (int k0 = 0; k0 < k; k0 += tile_k) {
        for (int e = tid; e < tile_m * tile_k; e += threads) {
            const int r = row0 + e / tile_k, q = k0 + e % tile_k;
            sa[e / tile_k][e % tile_k] = r < m && q < k ? a[r * k + q] : T{};
        }
        for (int e = tid; e < tile_k * tile_n; e += threads) {
            const int q = k0 + e / tile_n, s = col0 + e % tile_n;
            sb[e / tile_n][e % tile_n] = q < k && s < n ? element_of_b<T, TransposeB>(b, q, s, n, k) : T{};
        }
        __syncthreads();
        for (int e = 0; e < each; ++e) {
            const int at = tid + e * threads;
            for (int q = 0; q < tile_k; ++q) sums[e] += sa[at / tile_n][q] * sb[q][at % tile_n];
        }
        __syncthreads();
    }
    for (int e = 0; e < each; ++e) {
        const int at = tid + e * threads, r = row0 + at / tile_n, s = col0 + at % tile_n;
        if (r < m && s < n) c[r * n + s] = sums[e];
    }
}

template __global__ void modern_gemm<float, true>(const float*, const float*, float*, int, int, int);
