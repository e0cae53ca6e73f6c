#include <cstdio>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <curand.h>
__global__ void vectorAdd(const float *A, const float *B, float *C, int numElements) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < numElements) C[i] = A[i] + B[i] + 0.0f;
}
int main(void) {
  cudaError_t err = cudaSuccess;
  int numElements = 50000;
  size_t size = numElements * sizeof(float);
  float *d_A = NULL;
  err = cudaMalloc((void **)&d_A, size);
  float *d_B = NULL;
  err = cudaMalloc((void **)&d_B, size);
  float *d_C = NULL;
  err = cudaMalloc((void **)&d_C, size);
  int threadsPerBlock = 256;
  int blocksPerGrid = (numElements + threadsPerBlock - 1) / threadsPerBlock;
  vectorAdd<<<blocksPerGrid, threadsPerBlock>>>(d_A, d_B, d_C, numElements);
  thrust::host_vector<float> h(3);
  return 0;
}
