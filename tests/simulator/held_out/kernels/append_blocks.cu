// Blocks append their sums to a list, under a lock.
__device__ void take(int* lock) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();  // taken before the list is read
}

__device__ void give(int* lock) {
    __threadfence();  // the list is stored before it is given
    atomicExch(lock, 0);
}

__global__ void append_blocks(const int* in, int* list, int* length, int* lock, int n) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();  // zero
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&sum, in[i]);
    __syncthreads();  // sum
    if (threadIdx.x == 0) {
        take(lock);
        int place = *length;
        list[place] = sum;
        *length = place + 1;
        give(lock);
    }
}
