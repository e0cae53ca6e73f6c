// Sorts up to 128 numbers in one block: neighbors swap, even pairs, then odd ones, until no thread has swapped.
__global__ void brick_sort(int* x, int* rounds, int n) {
    __shared__ int s[128];
    int t = threadIdx.x;
    for (int i = t; i < n; i += blockDim.x) s[i] = x[i];
    __syncthreads();  // all are here
    int count = 0;
    int swapped;
    do {
        swapped = 0;
        for (int odd = 0; odd < 2; odd++) {
            int i = 2 * t + odd;
            if (i + 1 < n && s[i] > s[i + 1]) {
                int keep = s[i];
                s[i] = s[i + 1];
                s[i + 1] = keep;
                swapped = 1;
            }
            __syncthreads();  // half a round
        }
        count++;
    } while (__syncthreads_or(swapped));
    for (int i = t; i < n; i += blockDim.x) x[i] = s[i];
    if (t == 0) *rounds = count;
}
