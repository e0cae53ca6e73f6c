#include <functional>
#include <string>

namespace lab { namespace kernels {

struct Shape {
    int m, n, k;
    __host__ __device__ bool holds(int i, int j) const { return i < m && j < n; }
};

template <typename T>
struct Accumulator {
    T value = T(0);
    __device__ void add(T x, T y) { value += x * y; }
};

__global__ void product(const float* a, const float* b, float* c, Shape s)
{
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (!s.holds(i, j)) return;
    Accumulator<float> sum;
    for (int l = 0; l < s.k; ++l) sum.add(a[i * s.k + l], b[l * s.n + j]);
    c[i * s.n + j] = sum.value;
}

}}  // namespace lab::kernels

std::string describe(const lab::kernels::Shape& s) { return std::to_string(s.m) + "x" + std::to_string(s.n); }
