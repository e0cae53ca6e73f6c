// Sum of a block's elements in a static array, halving the threads.
#define THREADS 128

__global__ void reduce_tree(const float* in, float* out, int n) {
    __shared__ float partial[THREADS];
    int tid = threadIdx.x;
    int i = blockIdx.x * THREADS + tid;
    partial[tid] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (tid < s) partial[tid] += partial[tid + s];
        __syncthreads();
    }
    if (tid == 0) out[blockIdx.x] = partial[0];
}
