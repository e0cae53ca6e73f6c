// A thread computes a strip of TM rows: one element of B from shared memory serves TM products.
// M, N and K are multiples of 32, 32 and 8.
#define BM 32
#define BN 32
#define BK 8
#define TM 4

__global__ __launch_bounds__(BM * BN / TM) void gemm_strips(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    const int tcol = threadIdx.x % BN, trow = threadIdx.x / BN;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float acc[TM] = {0.f};
    for (int k0 = 0; k0 < K; k0 += BK) {
        As[threadIdx.x] = A[threadIdx.x / BK * K + threadIdx.x % BK];
        Bs[threadIdx.x] = B[threadIdx.x / BN * N + threadIdx.x % BN];
        __syncthreads();
        A += BK;
        B += BK * N;
        for (int k = 0; k < BK; ++k) {
            const float b = Bs[k * BN + tcol];
            for (int i = 0; i < TM; ++i) acc[i] += As[(trow * TM + i) * BK + k] * b;
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i) C[(trow * TM + i) * N + tcol] = acc[i];
}

int main()
{
    float *A, *B, *C;
    cudaMalloc(&A, 128 * 64 * 4);
    cudaMalloc(&B, 64 * 96 * 4);
    cudaMalloc(&C, 128 * 96 * 4);
    gemm_strips<<<dim3(96 / BN, 128 / BM), BM * BN / TM>>>(A, B, C, 128, 96, 64);
    return cudaDeviceSynchronize();
}
