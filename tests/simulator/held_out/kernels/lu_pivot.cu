// LU in place, with the largest number of a column as its pivot: one block; warp 0 looks for the pivot.
__global__ void lu_pivot(double* a, int* pivots, int n) {
    __shared__ int chosen;
    int tid = threadIdx.x;
    for (int k = 0; k < n; k++) {
        if (tid < 32) {
            double most = -1.0;
            int row = k;
            for (int i = k + tid; i < n; i += 32) {
                if (fabs(a[i * n + k]) > most) {
                    most = fabs(a[i * n + k]);
                    row = i;
                }
            }
            for (int offset = 16; offset > 0; offset /= 2) {
                double other = __shfl_down_sync(0xffffffffu, most, offset);
                int there = __shfl_down_sync(0xffffffffu, row, offset);
                if (other > most) {
                    most = other;
                    row = there;
                }
            }
            if (tid == 0) {
                chosen = row;
                pivots[k] = row;
            }
        }
        __syncthreads();  // the pivot is known
        if (chosen != k) {
            for (int j = tid; j < n; j += blockDim.x) {
                double keep = a[k * n + j];
                a[k * n + j] = a[chosen * n + j];
                a[chosen * n + j] = keep;
            }
        }
        __syncthreads();  // rows are swapped
        for (int i = k + 1 + tid; i < n; i += blockDim.x) a[i * n + k] /= a[k * n + k];
        __syncthreads();  // the column is divided
        int side = n - k - 1;
        for (int e = tid; e < side * side; e += blockDim.x) {
            int i = k + 1 + e / side, j = k + 1 + e % side;
            a[i * n + j] -= a[i * n + k] * a[k * n + j];
        }
        __syncthreads();  // the rest is updated
    }
}
