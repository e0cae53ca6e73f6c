// A block sorts its elements in shared memory.
__global__ void bitonic_sort(float* data) {
    __shared__ float s[128];
    int tid = threadIdx.x;
    int base = blockIdx.x * 128;
    s[tid] = data[base + tid];
    __syncthreads();
    for (int k = 2; k <= 128; k *= 2) {
        for (int j = k / 2; j > 0; j /= 2) {
            int other = tid ^ j;
            if (other > tid) {
                bool ascending = (tid & k) == 0;
                if ((s[tid] > s[other]) == ascending) {
                    float t = s[tid];
                    s[tid] = s[other];
                    s[other] = t;
                }
            }
            __syncthreads();
        }
    }
    data[base + tid] = s[tid];
}
