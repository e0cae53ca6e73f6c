// "It compiles, but C is A squared or something."
__global__ void square_by_mistake(const float* A, const float* B, float* C, int n)
{
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && j < n) {
        float s = 0.f;
        for (int k = 0; k < n; ++k) s += A[i * n + k] * A[k * n + j];
        C[i * n + j] = s;
    }
}
