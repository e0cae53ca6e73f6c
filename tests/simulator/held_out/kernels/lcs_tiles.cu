// The longest common subsequence of two texts: a block for each tile of the table, which waits for those before it.
#define T 64

__device__ void wait_for(int* flag) {
    while (atomicAdd(flag, 0) == 0) {
    }
}

__global__ void lcs_tiles(const char* a, const char* b, int* table, int* ready, int rows, int columns) {
    __shared__ int part[T + 1][T + 1];
    int i = threadIdx.x, pitch = columns + 1;
    int top = blockIdx.y * T, left = blockIdx.x * T;
    int* me = ready + blockIdx.y * gridDim.x + blockIdx.x;
    if (i == 0) {
        if (blockIdx.x > 0) wait_for(me - 1);
        if (blockIdx.y > 0) wait_for(me - gridDim.x);
        __threadfence();  // what they stored is seen
    }
    __syncthreads();  // the tiles before are here
    for (int k = i; k <= T; k += T) {
        if (top + k <= rows) part[k][0] = table[(top + k) * pitch + left];
        if (left + k <= columns) part[0][k] = table[top * pitch + left + k];
    }
    __syncthreads();  // edges
    for (int d = 0; d < 2 * T - 1; d++) {
        int j = d - i;
        if (j >= 0 && j < T && top + i < rows && left + j < columns) {
            int kept = max(part[i][j + 1], part[i + 1][j]);
            part[i + 1][j + 1] = a[top + i] == b[left + j] ? part[i][j] + 1 : kept;
        }
        __syncthreads();  // one diagonal
    }
    for (int j = 0; j < T; j++)
        if (top + i < rows && left + j < columns) table[(top + i + 1) * pitch + left + j + 1] = part[i + 1][j + 1];
    __threadfence();  // before the flag
    __syncthreads();  // the tile is stored
    if (i == 0) atomicExch(me, 1);
}
