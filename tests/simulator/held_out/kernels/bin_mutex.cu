// Sum, count and largest number of each bin, which a lock for each bin guards.
struct Bin {
    int sum;
    int count;
    int top;
};

__global__ void bin_mutex(const int* x, const int* which, Bin* bins, int* locks, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int k = which[i];
    bool waiting = true;
    while (waiting) {
        if (atomicCAS(&locks[k], 0, 1) == 0) {
            __threadfence();
            volatile Bin* bin = &bins[k];
            bin->sum = bin->sum + x[i];
            bin->count = bin->count + 1;
            if (x[i] > bin->top) bin->top = x[i];
            __threadfence();
            atomicExch(&locks[k], 0);
            waiting = false;
        }
    }
}
