// The best value for each weight that a sack may hold, item after item, in one block.
#define CAPACITY 100

__constant__ int weights[12] = {12, 7, 11, 8, 9, 6, 13, 5, 14, 10, 3, 17};
__constant__ int prices[12] = {24, 13, 23, 15, 16, 11, 28, 9, 27, 20, 5, 31};

__global__ void knapsack(int* best, int items) {
    __shared__ int value[2][CAPACITY + 1];
    int w = threadIdx.x;
    if (w <= CAPACITY) value[0][w] = 0;
    __syncthreads();  // nothing is packed
    for (int k = 0; k < items; k++) {
        if (w <= CAPACITY) {
            int now = value[k % 2][w];
            if (w >= weights[k]) now = max(now, value[k % 2][w - weights[k]] + prices[k]);
            value[(k + 1) % 2][w] = now;
        }
        __syncthreads();  // item k
    }
    if (w <= CAPACITY) best[w] = value[items % 2][w];
}
