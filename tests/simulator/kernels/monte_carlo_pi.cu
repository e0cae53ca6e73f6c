// A generator of pseudo-random numbers a thread; hits are added by one atomic a thread.
__device__ unsigned int xorshift(unsigned int& state) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

__global__ void monte_carlo_pi(unsigned int* hits, int tries) {
    unsigned int state = blockIdx.x * blockDim.x + threadIdx.x + 1u;
    unsigned int mine = 0;
    for (int i = 0; i < tries; ++i) {
        float x = (xorshift(state) >> 8) * (1.0f / 16777216.0f);
        float y = (xorshift(state) >> 8) * (1.0f / 16777216.0f);
        if (x * x + y * y < 1.0f) ++mine;
    }
    atomicAdd(hits, mine);
}
