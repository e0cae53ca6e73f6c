// The first place of a negative number in each row, a warp for each, or -1; and how many rows have none.
__global__ void first_negative(const int* x, int* where, int* without, int rows, int columns) {
    int lane = threadIdx.x % 32;
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int found = -1;
    if (row < rows) {
        for (int base = 0; base < columns; base += 32) {
            int j = base + lane;
            bool hit = j < columns && x[row * columns + j] < 0;
            unsigned votes = __ballot_sync(0xffffffffu, hit);
            if (votes) {
                found = base + __ffs(votes) - 1;
                break;
            }
        }
        if (lane == 0) where[row] = found;
    }
    int missing = __syncthreads_count(lane == 0 && row < rows && found < 0);
    if (threadIdx.x == 0) atomicAdd(without, missing);
}
