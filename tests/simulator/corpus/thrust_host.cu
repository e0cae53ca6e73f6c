// The host side is Thrust, the kernel is plain.
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/generate.h>
#include <iostream>
#include <random>

__global__ void multiply(const float* a, const float* b, float* c, unsigned m, unsigned n, unsigned k)
{
    const unsigned j = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < m && j < n) {
        float s = 0;
        for (unsigned l = 0; l != k; ++l) s += a[i * k + l] * b[l * n + j];
        c[i * n + j] = s;
    }
}

int main()
{
    const unsigned m = 70, n = 90, k = 110;
    std::mt19937 engine(7);
    std::uniform_real_distribution<float> uniform(-1, 1);
    thrust::host_vector<float> ha(m * k), hb(k * n);
    thrust::generate(ha.begin(), ha.end(), [&] { return uniform(engine); });
    thrust::generate(hb.begin(), hb.end(), [&] { return uniform(engine); });
    thrust::device_vector<float> a = ha, b = hb, c(m * n);
    const dim3 block(32, 4), grid((n + 31) / 32, (m + 3) / 4);
    multiply<<<grid, block>>>(thrust::raw_pointer_cast(a.data()), thrust::raw_pointer_cast(b.data()),
                              thrust::raw_pointer_cast(c.data()), m, n, k);
    std::cout << c[0] << "\n";
}
