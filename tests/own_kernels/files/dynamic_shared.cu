#include <cstdio>
#include <cassert>
extern __shared__ float smem[];
__global__ void tiledMul(const double* __restrict__ A, const double* __restrict__ B, double* __restrict__ C, int N) {
    extern __shared__ double s[];
    double* sA = s;
    double* sB = s + blockDim.x * blockDim.y;
    int tx = threadIdx.x, ty = threadIdx.y, w = blockDim.x;
    int row = blockIdx.y * w + ty, col = blockIdx.x * w + tx;
    double tmp = 0.0;
    for (int i = 0; i < (N + w - 1) / w; i++) {
        sA[ty * w + tx] = (row < N && i * w + tx < N) ? A[row * N + i * w + tx] : 0.0;
        sB[ty * w + tx] = (col < N && i * w + ty < N) ? B[(i * w + ty) * N + col] : 0.0;
        __syncthreads();
        for (int j = 0; j < w; j++) tmp += sA[ty * w + j] * sB[j * w + tx];
        __syncthreads();
    }
    if (row < N && col < N) C[row * N + col] = tmp;
}
int main(int argc, char* argv[]) {
    int n;
    if (argc < 2) { printf("usage"); n = 1024; } else n = atoi(argv[1]);
    const int T = 16;
    size_t shmem = 2 * T * T * sizeof(double);
    double *a, *b, *c;
    cudaMallocManaged(&a, n * n * sizeof(double));
    cudaMallocManaged(&b, n * n * sizeof(double));
    cudaMallocManaged(&c, n * n * sizeof(double));
    dim3 THREADS(T, T);
    dim3 BLOCKS((n + T - 1) / T, (n + T - 1) / T);
    for (int rep = 0; rep < 10; ++rep)
        tiledMul<<<BLOCKS, THREADS, shmem>>>(a, b, c, n);
    cudaDeviceSynchronize();
}
