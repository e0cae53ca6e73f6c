// Links numbers into lists of their last digits, and then walks along the lists: a block for each n numbers.
#define DIGITS 10

__global__ void bucket_lists(const int* x, int* next, int* sums, int* lengths, int n) {
    __shared__ int heads[DIGITS];
    int tid = threadIdx.x;
    const int* mine = x + blockIdx.x * n;
    int* link = next + blockIdx.x * n;
    if (tid < DIGITS) heads[tid] = -1;
    __syncthreads();  // no heads
    for (int i = tid; i < n; i += blockDim.x) {
        int digit = mine[i] % 10;
        link[i] = atomicExch(&heads[digit], i);
    }
    __syncthreads();  // all are linked
    if (tid < DIGITS) {
        int sum = 0, length = 0;
        for (int i = heads[tid]; i >= 0; i = link[i]) {
            sum += mine[i];
            length++;
        }
        sums[blockIdx.x * DIGITS + tid] = sum;
        lengths[blockIdx.x * DIGITS + tid] = length;
    }
}
