// One pass of a radix sort of a block: a stable partition by one bit.
__global__ void radix_pass(const unsigned int* in, unsigned int* out, int bit) {
    __shared__ int zeros_before[128];
    int tid = threadIdx.x;
    unsigned int key = in[tid];
    int zero = ((key >> bit) & 1) == 0;
    zeros_before[tid] = zero;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        int add = tid >= d ? zeros_before[tid - d] : 0;
        __syncthreads();
        zeros_before[tid] += add;
        __syncthreads();
    }
    int zeros = zeros_before[127];
    int place = zero ? zeros_before[tid] - 1 : zeros + tid - zeros_before[tid];
    out[place] = key;
}
