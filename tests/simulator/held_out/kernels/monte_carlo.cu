// Counts random points in a quarter of a circle. Each thread has its own generator.
__device__ unsigned draw(unsigned& state) {
    state = state * 1664525u + 1013904223u;
    return state >> 16;
}

__global__ void monte_carlo(const unsigned* seeds, unsigned* states, unsigned long long* hits, int threads,
                            int rounds) {
    __shared__ unsigned inside;
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) inside = 0;
    __syncthreads();  // zero is set
    if (id < threads) {
        unsigned state = seeds[id];
        unsigned mine = 0;
        for (int r = 0; r < rounds; r++) {
            unsigned long long x = draw(state);
            unsigned long long y = draw(state);
            if (x * x + y * y < 4294967296ull) mine++;
        }
        states[id] = state;
        atomicAdd(&inside, mine);
    }
    __syncthreads();  // all have added
    if (threadIdx.x == 0) atomicAdd(hits, (unsigned long long)inside);
}
