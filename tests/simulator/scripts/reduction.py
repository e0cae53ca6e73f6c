"""A sum by a tree in dynamic shared memory: a block has more than 48 KiB, which a kernel asks for."""

import cupy as cp

kernel = cp.RawKernel(
    r"""
extern "C" __global__ void block_sums(const double* x, double* sums, long long n) {
    extern __shared__ double partial[];
    double sum = 0;
    for (long long i = threadIdx.x + (long long)blockIdx.x * blockDim.x; i < n; i += (long long)gridDim.x * blockDim.x)
        sum += x[i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned width = blockDim.x / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}
""",
    "block_sums",
)
kernel.max_dynamic_shared_size_bytes = 64 * 1024
assert kernel.max_threads_per_block >= 256

x = cp.arange(10_000, dtype=cp.float64).reshape(100, 100)
sums = cp.empty(8)
kernel((8,), (256,), (x, sums, x.size), shared_mem=64 * 1024)
total = sums.sum()
assert total == x.sum()

pool = cp.get_default_memory_pool()
print("total", total, "memory", pool.used_bytes() > 0)
