#include <iostream>
using namespace std;

// one thread per element, one-dimensional grid
__global__ void mat_mul(float *C, const float *A, const float *B, int hA, int wA, int wB) {
  int id = threadIdx.x + blockIdx.x * blockDim.x;
  int i = id / wB;
  int j = id % wB;
  if (i < hA) {
    float s = 0;
    for (int e = 0; e < wA; e++) s += A[i * wA + e] * B[e * wB + j];
    C[i * wB + j] = s;
  }
}

int main() {
  int hA = 100, wA = 50, wB = 70;
  float *a, *b, *c;
  cudaMallocManaged(&a, hA * wA * sizeof(float));
  cudaMallocManaged(&b, wA * wB * sizeof(float));
  cudaMallocManaged(&c, hA * wB * sizeof(float));
  for (int i = 0; i < hA * wA; i++) a[i] = 1;
  for (int i = 0; i < wA * wB; i++) b[i] = 1;
  int threads = 128, blocks = (hA * wB + threads - 1) / threads;
  mat_mul<<<blocks, threads>>>(c, a, b, hA, wA, wB);
  cudaDeviceSynchronize();
  cout << c[0] << endl;
}
