// L x = b by columns: a thread for each row, a block for each right side. Found numbers go through shared memory.
__global__ void forward_solve(const double* L, const double* b, double* x, int n, int sides) {
    __shared__ double found[64];
    int i = threadIdx.x;
    int side = blockIdx.x;
    double rest = i < n ? b[i * sides + side] : 0.0;
    for (int j = 0; j < n; j++) {
        if (i == j) {
            found[j] = rest / L[j * n + j];
            x[j * sides + side] = found[j];
        }
        __syncthreads();
        if (i > j && i < n) rest -= L[i * n + j] * found[j];
    }
}
