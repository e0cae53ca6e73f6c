// The instruction that reduces a warp's integers.
__global__ void reduce_add_sync(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = i < n ? in[i] : 0;
    int sum = __reduce_add_sync(0xffffffffu, v);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}
