// A grid-stride loop whose sum is declared before the loop.
__global__ void mm_loop(const float* a, const float* b, float* c, int m, int n, int k)
{
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < m * n; i += gridDim.x * blockDim.x) {
        for (int l = 0; l < k; ++l) sum += a[i / n * k + l] * b[l * n + i % n];
        c[i] = sum;
    }
}
