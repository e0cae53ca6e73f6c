// Half of the block waits at a barrier of its own, by inline PTX.
__global__ void named_barrier(const int* in, int* out) {
    __shared__ int s[128];
    int tid = threadIdx.x;
    s[tid] = in[blockIdx.x * 128 + tid];
    if (tid < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[blockIdx.x * 128 + tid] = s[63 - tid];
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");
        out[blockIdx.x * 128 + tid] = s[64 + 127 - tid];
    }
}
