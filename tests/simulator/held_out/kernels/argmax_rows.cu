// The place of the largest number of each row: a block for each; of equal ones the first.
#define THREADS 64

__global__ void argmax_rows(const float* x, int* where, int columns) {
    __shared__ float values[THREADS];
    __shared__ int places[THREADS];
    int tid = threadIdx.x;
    float best = -INFINITY;
    int place = 0x7fffffff;
    for (int j = tid; j < columns; j += THREADS) {
        float v = x[blockIdx.x * columns + j];
        if (v > best) {
            best = v;
            place = j;
        }
    }
    values[tid] = best;
    places[tid] = place;
    __syncthreads();  // all have stored
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (tid < half) {
            float other = values[tid + half];
            int there = places[tid + half];
            if (other > values[tid] || (other == values[tid] && there < places[tid])) {
                values[tid] = other;
                places[tid] = there;
            }
        }
        __syncthreads();  // one round
    }
    if (tid == 0) where[blockIdx.x] = places[0];
}
