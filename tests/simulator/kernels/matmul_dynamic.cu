// Both tiles in one dynamic allocation, the tile's width chosen at launch.
__global__ void matmul_dynamic(const float* A, const float* B, float* C, int N, int width) {
    extern __shared__ float tiles[];
    float* As = tiles;
    float* Bs = tiles + width * width;
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * width + ty;
    int col = blockIdx.x * width + tx;
    float sum = 0.0f;
    for (int m = 0; m < N / width; ++m) {
        As[ty * width + tx] = A[row * N + m * width + tx];
        Bs[ty * width + tx] = B[(m * width + ty) * N + col];
        __syncthreads();
        for (int k = 0; k < width; ++k) sum += As[ty * width + k] * Bs[k * width + tx];
        __syncthreads();
    }
    C[row * N + col] = sum;
}
