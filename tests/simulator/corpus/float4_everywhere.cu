// Reads B as float4 although its rows need not be multiples of 16 bytes.
__global__ void mm_float4(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (row >= M || col + 3 >= N) return;
    float4 sum = {0, 0, 0, 0};
    for (int k = 0; k < K; ++k) {
        const float a = A[row * K + k];
        const float4 b = *(const float4*)&B[k * N + col];
        sum.x += a * b.x; sum.y += a * b.y; sum.z += a * b.z; sum.w += a * b.w;
    }
    C[row * N + col] = sum.x; C[row * N + col + 1] = sum.y; C[row * N + col + 2] = sum.z; C[row * N + col + 3] = sum.w;
}
