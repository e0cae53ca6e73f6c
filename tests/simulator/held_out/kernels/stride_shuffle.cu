// Picks elements at a large stride modulo n, and their sums in groups, with a guard for the last group.
__global__ void stride_shuffle(const int* in, int* out, int* sums, int n, int step, int group) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int j = (int)((long long)i * step % n);
    int value = in[j];
    out[i] = value;
    atomicAdd(&sums[i / group], value);
}
