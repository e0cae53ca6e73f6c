#include <iostream>
#include <random>
#include <chrono>
#include <cuda_runtime.h>
// 行列の積
template <typename T>
__global__ void mm_kernel(T const* mat_1, T const* mat_2, T* mat_3, size_t m, size_t n, size_t p)
{
    size_t i{blockIdx.y * blockDim.y + threadIdx.y};
    size_t j{blockIdx.x * blockDim.x + threadIdx.x};
    if ((i >= m) || (j >= p)) { return; }
    T acc_sum{0};
    for (size_t k{0}; k < n; ++k) { acc_sum += mat_1[i * n + k] * mat_2[k * p + j]; }
    mat_3[i * p + j] = acc_sum;
}
template <typename T>
void mm_cuda(T const* mat_1, T const* mat_2, T* mat_3, size_t m, size_t n, size_t p)
{
    dim3 threads_per_block(32, 32);
    dim3 blocks_per_grid(1, 1);
    blocks_per_grid.x = std::ceil(static_cast<double>(p) / static_cast<double>(threads_per_block.x));
    blocks_per_grid.y = std::ceil(static_cast<double>(m) / static_cast<double>(threads_per_block.y));
    mm_kernel<<<blocks_per_grid, threads_per_block>>>(mat_1, mat_2, mat_3, m, n, p);
}
template <typename T> bool random_test_mm_cuda(size_t m, size_t n, size_t p) {
    std::vector<T> const mat_1_vec{create_rand_vector<T>(m * n)};
    T *d_mat_1, *d_mat_2, *d_mat_4;
    checkCuda(cudaMalloc(&d_mat_1, sizeof(T) * mat_1_vec.size()));
    mm_cuda(d_mat_1, d_mat_2, d_mat_4, m, n, p);
    return true;
}
int main() { random_test_mm_cuda<float>(200, 100, 300); }
