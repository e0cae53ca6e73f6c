// Sums, sums of squares and counts of each group, in dynamic shared memory and then in all; group -1 is no group.
__global__ void group_moments(const double* x, const int* group, double* sums, double* squares, int* counts, int n,
                              int groups) {
    extern __shared__ double space[];
    double* my_sums = space;
    double* my_squares = my_sums + groups;
    int* my_counts = reinterpret_cast<int*>(my_squares + groups);
    for (int g = threadIdx.x; g < groups; g += blockDim.x) {
        my_sums[g] = 0.0;
        my_squares[g] = 0.0;
        my_counts[g] = 0;
    }
    __syncthreads();  // zeros
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int g = group[i];
        if (g < 0) continue;
        atomicAdd(&my_sums[g], x[i]);
        atomicAdd(&my_squares[g], x[i] * x[i]);
        atomicAdd(&my_counts[g], 1);
    }
    __syncthreads();  // the block's
    for (int g = threadIdx.x; g < groups; g += blockDim.x) {
        atomicAdd(&sums[g], my_sums[g]);
        atomicAdd(&squares[g], my_squares[g]);
        atomicAdd(&counts[g], my_counts[g]);
    }
}
