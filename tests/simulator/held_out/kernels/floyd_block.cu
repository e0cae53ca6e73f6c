// Shortest ways between all pairs of up to 20 places, in one block. Row k and column k do not change in round k.
#define MOST 20
#define FAR 1000000000

__global__ void floyd_block(int* distance, int n) {
    __shared__ int d[MOST][MOST];
    for (int i = threadIdx.y; i < n; i += blockDim.y) {
        for (int j = threadIdx.x; j < n; j += blockDim.x) d[i][j] = distance[i * n + j];
    }
    __syncthreads();  // all are here
    for (int k = 0; k < n; k++) {
        for (int i = threadIdx.y; i < n; i += blockDim.y) {
            for (int j = threadIdx.x; j < n; j += blockDim.x) {
                int way = d[i][k] + d[k][j];
                if (way < d[i][j]) d[i][j] = way;
            }
        }
        __syncthreads();  // round k
    }
    for (int i = threadIdx.y; i < n; i += blockDim.y) {
        for (int j = threadIdx.x; j < n; j += blockDim.x) distance[i * n + j] = min(d[i][j], FAR);
    }
}
