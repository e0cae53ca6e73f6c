// "Manchmal kommt Unsinn heraus."
__global__ void mm_unset(const float *A, const float *B, float *C, int M, int N, int K)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    float sum;
    if (i < M && j < N) {
        for (int k = 0; k < K; ++k)
            sum += A[i * K + k] * B[k * N + j];
        C[i * N + j] = sum;
    }
}
