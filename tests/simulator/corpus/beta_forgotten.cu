// The epilogue forgets what C held before.
struct Epilogue {
    float alpha, beta;
    __device__ float apply(float sum, float old) const { return alpha * sum + 0 * old; }
};

__global__ void gemm_epilogue(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta)
{
    const Epilogue epilogue = {alpha, beta};
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = epilogue.apply(sum, C[row * N + col]);
}
