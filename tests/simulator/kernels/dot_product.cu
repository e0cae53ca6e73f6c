// The dot product: a grid-stride loop, a tree in shared memory, one atomic a block.
__global__ void dot_product(const float* x, const float* y, float* result, int n) {
    __shared__ float cache[128];
    float sum = 0.0f;
    int tid = threadIdx.x;
    for (int i = tid + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) sum += x[i] * y[i];
    cache[tid] = sum;
    __syncthreads();
    int i = blockDim.x / 2;
    while (i != 0) {
        if (tid < i) cache[tid] += cache[tid + i];
        __syncthreads();
        i /= 2;
    }
    if (tid == 0) atomicAdd(result, cache[0]);
}
