// int8 products, four at a time.
__global__ void dp4a_gemm(const int* A, const int* Bt, int* C, int M, int N, int quads) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M && col < N) {
        int sum = 0;
        for (int q = 0; q < quads; ++q) sum = __dp4a(A[row * quads + q], Bt[col * quads + q], sum);
        C[row * N + col] = sum;
    }
}
