// Two buffers: the next tiles wait in registers while the present ones are multiplied, and one barrier a step is enough.
#define T 16

__global__ void sgemm_double_buffered(const float* A, const float* B, float* C, int N, int K) {
    __shared__ float As[2][T][T];
    __shared__ float Bs[2][T][T];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    As[0][ty][tx] = A[row * K + tx];
    Bs[0][ty][tx] = B[ty * N + col];
    __syncthreads();
    float sum = 0.0f;
    int now = 0;
    for (int k0 = 0; k0 < K; k0 += T) {
        float next_a = 0.0f, next_b = 0.0f;
        bool more = k0 + T < K;
        if (more) {
            next_a = A[row * K + k0 + T + tx];
            next_b = B[(k0 + T + ty) * N + col];
        }
        for (int k = 0; k < T; ++k) sum += As[now][ty][k] * Bs[now][k][tx];
        if (more) {
            As[now ^ 1][ty][tx] = next_a;
            Bs[now ^ 1][ty][tx] = next_b;
        }
        __syncthreads();
        now ^= 1;
    }
    C[row * N + col] = sum;
}
