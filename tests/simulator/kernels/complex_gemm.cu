// Complex numbers as float2, a tile of each matrix.
__global__ void complex_gemm(const float2* A, const float2* B, float2* C, int n) {
    __shared__ float2 As[8][8], Bs[8][8];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 8 + ty, col = blockIdx.x * 8 + tx;
    float2 sum = make_float2(0.0f, 0.0f);
    for (int k0 = 0; k0 < n; k0 += 8) {
        As[ty][tx] = A[row * n + k0 + tx];
        Bs[ty][tx] = B[(k0 + ty) * n + col];
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            float2 a = As[ty][k], b = Bs[k][tx];
            sum.x += a.x * b.x - a.y * b.y;
            sum.y += a.x * b.y + a.y * b.x;
        }
        __syncthreads();
    }
    C[row * n + col] = sum;
}
