#define T 8
// k <= T reads one column past the tile of A and one row past that of B.
__global__ void mm_past(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float a[T][T];
    __shared__ float b[T][T];
    int r = blockIdx.y * T + threadIdx.y, c = blockIdx.x * T + threadIdx.x;
    float sum = 0.f;
    for (int t = 0; t < K; t += T) {
        a[threadIdx.y][threadIdx.x] = r < M && t + threadIdx.x < K ? A[r * K + t + threadIdx.x] : 0.f;
        b[threadIdx.y][threadIdx.x] = c < N && t + threadIdx.y < K ? B[(t + threadIdx.y) * N + c] : 0.f;
        __syncthreads();
        for (int k = 0; k <= T; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    if (r < M && c < N) C[r * N + c] = sum;
}
