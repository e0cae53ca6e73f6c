// Products of many 6 x 6 matrices: a block has four, one for each z.
#define N 6
#define EACH 4

__global__ void batched_matmul(const double* A, const double* B, double* C, int batch) {
    __shared__ double a[EACH][N][N];
    __shared__ double b[EACH][N][N + 1];
    int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    int which = blockIdx.x * EACH + z;
    int at = which * N * N + y * N + x;
    if (which < batch) {
        a[z][y][x] = A[at];
        b[z][y][x] = B[at];
    }
    __syncthreads();
    if (which < batch) {
        double sum = 0.0;
        for (int k = 0; k < N; k++) sum += a[z][y][k] * b[z][k][x];
        C[at] = sum;
    }
}
