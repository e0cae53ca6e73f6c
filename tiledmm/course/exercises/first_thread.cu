// tiledmm: grid=(N+127)/128 block=128
__global__ void first_thread(const float* x, const float* y, float* out, int N) {
    //[start]
    // TODO: which element is this thread's?
    int i = 0;
    // TODO: the last block has more threads than there are elements left. They must do nothing.
    out[i] = 2 * x[i] + y[i];
    //[solution]
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) out[i] = 2 * x[i] + y[i];
    //[end]
}
