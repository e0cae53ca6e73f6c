// The largest magnitude, by a loop that compares and swaps bits. Threads stride over the grid.
__device__ void raise_to(float* place, float value) {
    int* bits = reinterpret_cast<int*>(place);
    int seen = atomicAdd(bits, 0);
    while (__int_as_float(seen) < value) {
        int before = atomicCAS(bits, seen, __float_as_int(value));
        if (before == seen) break;
        seen = before;
    }
}

__global__ void max_abs_cas(const float* x, float* largest, int n) {
    __shared__ float block;
    if (threadIdx.x == 0) block = 0.0f;
    __syncthreads();  // it starts at zero
    float mine = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        mine = fmaxf(mine, fabsf(x[i]));
    }
    raise_to(&block, mine);
    __syncthreads();  // all have raised it
    if (threadIdx.x == 0) raise_to(largest, block);
}
