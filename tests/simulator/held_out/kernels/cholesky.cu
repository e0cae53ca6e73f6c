// The Cholesky factor of a small matrix, by one block of 8 x 8 threads in shared memory.
#define LARGEST 24

__global__ void cholesky(double* a, int n) {
    __shared__ double m[LARGEST][LARGEST + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int t = ty * 8 + tx;
    for (int i = t; i < n * n; i += 64) m[i / n][i % n] = a[i];
    __syncthreads();  // matrix
    for (int k = 0; k < n; ++k) {
        if (t == 0) m[k][k] = sqrt(m[k][k]);
        __syncthreads();  // pivot
        for (int i = k + 1 + t; i < n; i += 64) m[i][k] /= m[k][k];
        __syncthreads();  // column
        for (int i = k + 1 + ty; i < n; i += 8) {
            for (int j = k + 1 + tx; j <= i; j += 8) m[i][j] -= m[i][k] * m[j][k];
        }
        __syncthreads();  // rest
    }
    for (int i = t; i < n * n; i += 64) a[i] = i % n <= i / n ? m[i / n][i % n] : 0.0;
}
