// Products of the numbers of each key: first of the block in shared memory, then of all, by compare-and-swap.
#define KEYS 5

__device__ void atomic_multiply(double* to, double factor) {
    unsigned long long* bits = (unsigned long long*)to;
    unsigned long long seen = *bits, assumed;
    do {
        assumed = seen;
        double product = factor * __longlong_as_double(assumed);
        seen = atomicCAS(bits, assumed, __double_as_longlong(product));
    } while (seen != assumed);
}

__global__ void product_cas(const double* x, const int* which, double* products, int n) {
    __shared__ double mine[KEYS];
    int tid = threadIdx.x;
    if (tid < KEYS) mine[tid] = 1.0;
    __syncthreads();  // ones
    int i = blockIdx.x * blockDim.x + tid;
    if (i < n) atomic_multiply(&mine[which[i]], x[i]);
    __syncthreads();  // the block's products
    if (tid < KEYS) atomic_multiply(&products[tid], mine[tid]);
}
