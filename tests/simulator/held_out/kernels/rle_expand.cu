// Expands runs: each block sums the lengths in shared memory, and each thread finds the run of its element.
__global__ void rle_expand(const int* lengths, const short* values, short* out, int runs, int n) {
    __shared__ int ends[2][64];
    int tid = threadIdx.x;
    ends[0][tid] = tid < runs ? lengths[tid] : 0;
    int now = 0;
    for (int step = 1; step < 64; step *= 2) {
        __syncthreads();  // sums of a step
        ends[now ^ 1][tid] = ends[now][tid] + (tid >= step ? ends[now][tid - step] : 0);
        now ^= 1;
    }
    __syncthreads();  // all sums
    for (int i = blockIdx.x * blockDim.x + tid; i < n; i += gridDim.x * blockDim.x) {
        int low = 0, high = runs - 1;
        while (low < high) {
            int middle = (low + high) / 2;
            if (ends[now][middle] <= i) low = middle + 1;
            else high = middle;
        }
        out[i] = values[low];
    }
}
