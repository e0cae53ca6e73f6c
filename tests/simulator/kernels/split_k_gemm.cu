// The grid's z cuts K into parts; sums are added by atomics.
__global__ void split_k_gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int part = (K + gridDim.z - 1) / gridDim.z;
    int first = blockIdx.z * part;
    int last = min(K, first + part);
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = first; k < last; ++k) sum += A[row * K + k] * B[k * N + col];
    atomicAdd(&C[row * N + col], sum);
}
