// 8 columns per thread: computed side by side, stored 8 apart. N is a multiple of 64, M of 8.
constexpr int COLS = 8;

__global__ void mm_mixed(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col0 = blockIdx.x * blockDim.x * COLS;
    float acc[COLS] = {};
    for (int k = 0; k < K; ++k) {
        const float a = A[row * K + k];
        for (int j = 0; j < COLS; ++j) acc[j] += a * B[k * N + col0 + threadIdx.x * COLS + j];
    }
    for (int j = 0; j < COLS; ++j) C[row * N + col0 + j * blockDim.x + threadIdx.x] = acc[j];
}
