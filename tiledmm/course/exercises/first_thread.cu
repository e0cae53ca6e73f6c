// tiledmm: grid=(N+127)/128 block=128
__global__ void first_thread(const float* x, const float* y, float* out, int N) {
    //[start]
    // TODO: compute the number of this thread's element.
    int i = 0;
    // TODO: the last block may have threads without an element. They must do nothing.
    out[i] = 2 * x[i] + y[i];
    //[solution]
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) out[i] = 2 * x[i] + y[i];
    //[end]
}
