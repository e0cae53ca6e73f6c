#define N 64
__global__ void MatMul(float A[N][N], float B[N][N], float C[N][N]) {
  int i = threadIdx.x + blockIdx.x * blockDim.x, j = threadIdx.y + blockIdx.y * blockDim.y;
  if (i < N && j < N) { float s = 0; for (int k = 0; k < N; k++) s += A[i][k] * B[k][j]; C[i][j] = s; }
}
int main() {
  float (*dA)[N], (*dB)[N], (*dC)[N];
  cudaMalloc((void**)&dA, N * N * sizeof(float)); cudaMalloc((void**)&dB, (N*N)*sizeof(float)); cudaMalloc((void**)&dC, (N*N)*sizeof(float));
  dim3 threadsPerBlock(16, 16);
  dim3 numBlocks(N / threadsPerBlock.x, N / threadsPerBlock.y);
  MatMul<<<numBlocks, threadsPerBlock>>>(dA, dB, dC);
}
