// C = A B^T, with two buffers of tiles in shared memory.
#define T 16

__global__ void matmul_bt(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float as[2][T][T + 1];
    __shared__ float bs[2][T][T + 1];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * T + y;
    int col = blockIdx.x * T + x;
    int brow = blockIdx.x * T + y;
    int stages = (K + T - 1) / T;
    as[0][y][x] = row < M && x < K ? A[row * K + x] : 0.0f;
    bs[0][y][x] = brow < N && x < K ? B[brow * K + x] : 0.0f;
    __syncthreads();  // first tiles
    float sum = 0.0f;
    for (int s = 0; s < stages; ++s) {
        int now = s & 1;
        int next = now ^ 1;
        if (s + 1 < stages) {
            int k = (s + 1) * T + x;
            as[next][y][x] = row < M && k < K ? A[row * K + k] : 0.0f;
            bs[next][y][x] = brow < N && k < K ? B[brow * K + k] : 0.0f;
        }
        for (int k = 0; k < T; ++k) {
            sum += as[now][y][k] * bs[now][x][k];
        }
        __syncthreads();  // next tiles
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
