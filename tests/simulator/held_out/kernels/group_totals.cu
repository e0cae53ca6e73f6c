// Sums and sizes of groups: two arrays in one piece of dynamic shared memory.
__global__ void group_totals(const double* x, const int* group, double* totals, int* sizes, int n, int groups) {
    extern __shared__ __align__(8) unsigned char memory[];
    double* sums = reinterpret_cast<double*>(memory);
    int* counts = reinterpret_cast<int*>(memory + groups * sizeof(double));
    for (int g = threadIdx.x; g < groups; g += blockDim.x) {
        sums[g] = 0;
        counts[g] = 0;
    }
    __syncthreads();  // zeros
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&sums[group[i]], x[i]);
        atomicAdd(&counts[group[i]], 1);
    }
    __syncthreads();  // sums
    for (int g = threadIdx.x; g < groups; g += blockDim.x) {
        atomicAdd(&totals[g], sums[g]);
        atomicAdd(&sizes[g], counts[g]);
    }
}
