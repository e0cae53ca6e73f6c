// Systems with three diagonals by cyclic reduction: a block for each, a thread for each row, in shared memory.
#define MOST 128

__global__ void pcr_tridiagonal(const double* lower, const double* middle, const double* upper, const double* right,
                                double* x, int n) {
    __shared__ double a[MOST], b[MOST], c[MOST], d[MOST];
    int i = threadIdx.x;
    int at = blockIdx.x * n + i;
    if (i < n) {
        a[i] = i > 0 ? lower[at] : 0.0;
        b[i] = middle[at];
        c[i] = i < n - 1 ? upper[at] : 0.0;
        d[i] = right[at];
    }
    __syncthreads();  // rows are here
    for (int step = 1; step < n; step *= 2) {
        double na = 0.0, nb = 0.0, nc = 0.0, nd = 0.0;
        if (i < n) {
            nb = b[i];
            nd = d[i];
            if (i >= step) {
                double k = a[i] / b[i - step];
                na = -k * a[i - step];
                nb -= k * c[i - step];
                nd -= k * d[i - step];
            }
            if (i + step < n) {
                double k = c[i] / b[i + step];
                nc = -k * c[i + step];
                nb -= k * a[i + step];
                nd -= k * d[i + step];
            }
        }
        __syncthreads();  // all have read
        if (i < n) {
            a[i] = na;
            b[i] = nb;
            c[i] = nc;
            d[i] = nd;
        }
        __syncthreads();  // all have stored
    }
    if (i < n) x[at] = d[i] / b[i];
}
