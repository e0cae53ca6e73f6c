#include "layer.h"
#include <memory>
namespace nn {
class Linear {
 public:
  Linear(int in, int out) : in_(in), out_(out) { cudaMalloc(&w_, in * out * sizeof(float)); }
  void forward(const float* x, float* y, int batch);
 private:
  int in_, out_;
  float* w_;
};
__global__ void linear_forward_kernel(const float* __restrict__ input, const float* __restrict__ weight, float* __restrict__ output,
                                      int batch_size, int in_features, int out_features) {
  int b = blockIdx.y * blockDim.y + threadIdx.y;
  int o = blockIdx.x * blockDim.x + threadIdx.x;
  if (b < batch_size && o < out_features) {
    float acc = 0.0f;
    for (int i = 0; i < in_features; ++i) acc += input[b * in_features + i] * weight[o * in_features + i];
    output[b * out_features + o] = acc;
  }
}
void Linear::forward(const float* x, float* y, int batch) {
  const dim3 threads(16, 16);
  const dim3 blocks((out_ + threads.x - 1) / threads.x, (batch + threads.y - 1) / threads.y);
  linear_forward_kernel<<<blocks, threads>>>(x, w_, y, batch, in_, out_);
}
}
