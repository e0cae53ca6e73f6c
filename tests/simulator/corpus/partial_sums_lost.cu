// K is divided among blocks, which overwrite each other's sums.
__global__ void split_overwrite(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    const int part = (K + gridDim.z - 1) / gridDim.z;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = blockIdx.z * part; k < K && k < (blockIdx.z + 1) * part; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
