// Two buffers: the next tiles are loaded while the present ones are multiplied. Sizes are multiples of 16.
constexpr int T = 16;

__global__ void gemm_ping_pong(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float As[2][T][T], Bs[2][T][T];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    As[0][y][x] = A[row * K + x];
    Bs[0][y][x] = B[y * N + col];
    __syncthreads();
    float acc = 0.f;
    int now = 0;
    for (int k0 = T; k0 <= K; k0 += T) {
        float a = 0.f, b = 0.f;
        if (k0 < K) {
            a = A[row * K + k0 + x];
            b = B[(k0 + y) * N + col];
        }
        for (int k = 0; k < T; ++k) acc += As[now][y][k] * Bs[now][k][x];
        now ^= 1;
        As[now][y][x] = a;
        Bs[now][y][x] = b;
        __syncthreads();
    }
    C[row * N + col] = acc;
}
