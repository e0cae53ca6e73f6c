__global__ void splitk(const float* A, const float* B, float* C, int M, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  int per = (K + gridDim.z - 1) / gridDim.z, k0 = blockIdx.z * per, k1 = min(K, k0 + per);
  float s = 0;
  for (int k = k0; k < k1; ++k) s += A[row * K + k] * B[k * N + col];
  atomicAdd(&C[row * N + col], s);
}
void run(const float* A, const float* B, float* C, int M, int N, int K, cudaStream_t st) {
  cudaMemsetAsync(C, 0, sizeof(float) * M * N, st);
  dim3 b(16, 16, 1), g((N + b.x - 1) / b.x, (M + b.y - 1) / b.y, 4);
  splitk<<<g, b, 0, st>>>(A, B, C, M, N, K);
}
