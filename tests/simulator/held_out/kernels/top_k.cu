// The k largest numbers of each row, largest first: a block takes the largest out k times.
#include <climits>

#define WARPS 2

__global__ void top_k(const int* x, int* best, int columns, int k) {
    extern __shared__ int left[];
    __shared__ int tops[WARPS];
    __shared__ int spots[WARPS];
    int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    for (int j = tid; j < columns; j += blockDim.x) left[j] = x[blockIdx.x * columns + j];
    __syncthreads();  // the row is here
    for (int round = 0; round < k; round++) {
        int top = INT_MIN, spot = -1;
        for (int j = tid; j < columns; j += blockDim.x) {
            if (left[j] > top) {
                top = left[j];
                spot = j;
            }
        }
        for (int offset = 16; offset > 0; offset >>= 1) {
            int other = __shfl_down_sync(0xffffffffu, top, offset);
            int there = __shfl_down_sync(0xffffffffu, spot, offset);
            if (other > top) {
                top = other;
                spot = there;
            }
        }
        if (lane == 0) {
            tops[warp] = top;
            spots[warp] = spot;
        }
        __syncthreads();  // each warp has one
        if (tid == 0) {
            int winner = tops[1] > tops[0] ? 1 : 0;
            best[blockIdx.x * k + round] = tops[winner];
            left[spots[winner]] = INT_MIN;
        }
        __syncthreads();  // it is out
    }
}
