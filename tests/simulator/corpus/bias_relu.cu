// A dense layer: relu(x * w + bias).
#include <cuda_runtime.h>
#include <memory>

struct Relu { __device__ float operator()(float v) const { return v > 0.f ? v : 0.f; } };

template <class Activation>
__device__ void dense(const float* x, const float* w, const float* bias, float* y, int batch, int out, int in, Activation f)
{
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch || j >= out) return;
    float sum = bias[j];
    for (int k = 0; k < in; ++k) sum += x[i * in + k] * w[k * out + j];
    y[i * out + j] = f(sum);
}

__global__ void dense_relu(const float* x, const float* w, const float* bias, float* y, int batch, int out, int in)
{
    dense(x, w, bias, y, batch, out, in, Relu());
}
