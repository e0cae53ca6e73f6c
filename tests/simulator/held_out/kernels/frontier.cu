// A step of a breadth-first search, with a queue in shared memory for each block.
__global__ void frontier(const int* begin, const int* edges, int* depth, const int* now, int size, int* next,
                         int* next_size, int level) {
    __shared__ int queue[256];
    __shared__ int count;
    __shared__ int base;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();  // zero
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        int v = now[i];
        for (int e = begin[v]; e < begin[v + 1]; ++e) {
            int u = edges[e];
            if (atomicCAS(&depth[u], -1, level) == -1) {
                int slot = atomicAdd(&count, 1);
                queue[slot] = u;
            }
        }
    }
    __syncthreads();  // queue
    if (threadIdx.x == 0) base = atomicAdd(next_size, count);
    __syncthreads();  // its place
    for (int j = threadIdx.x; j < count; j += blockDim.x) {
        next[base + j] = queue[j];
    }
}
