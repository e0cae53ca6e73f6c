// Integer intrinsics.
__global__ void bit_tricks(const unsigned int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned int v = in[i];
        out[4 * i + 0] = __popc(v);
        out[4 * i + 1] = __clz(v);
        out[4 * i + 2] = __ffs(v);
        out[4 * i + 3] = (int)__brev(v);
    }
}
