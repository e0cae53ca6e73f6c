// one thread per element with a 1-D launch and a grid-stride loop
__global__ void matmul_1d(const float* a, const float* b, float* c, unsigned int m, unsigned int n, unsigned int k) {
  for (unsigned idx = blockIdx.x * blockDim.x + threadIdx.x; idx < m * n; idx += gridDim.x * blockDim.x) {
    unsigned r = idx / n, col = idx % n;
    float s = 0.0f;
    for (unsigned i = 0; i < k; i++) s = fmaf(a[r * k + i], b[i * n + col], s);
    c[idx] = s;
  }
}
