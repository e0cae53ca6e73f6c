// Which bin each number falls in, by a binary search of edges in shared memory; numbers outside get -1.
#define EDGES 33

__global__ void bin_lookup(const float* x, const float* edges, int* bin, int n) {
    __shared__ float e[EDGES];
    for (int i = threadIdx.x; i < EDGES; i += blockDim.x) e[i] = edges[i];
    __syncthreads();
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        float v = x[i];
        int low = 0, high = EDGES;  // the first edge above v is in [low, high]
        while (low < high) {
            int middle = (low + high) / 2;
            if (e[middle] > v) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        bin[i] = low == 0 || low == EDGES ? -1 : low - 1;
    }
}
