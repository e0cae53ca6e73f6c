// h[t] = a[t] * h[t - 1] + b[t] for all t at once: a scan of steps put together, from one buffer into another.
struct Step {
    unsigned scale, shift;
};

__device__ Step together(Step first, Step second) {
    Step both;
    both.scale = first.scale * second.scale;
    both.shift = first.shift * second.scale + second.shift;
    return both;
}

__global__ void recurrence_scan(const unsigned* a, const unsigned* b, unsigned* h, int n) {
    extern __shared__ Step space[];
    Step* now = space;
    Step* next = space + n;
    int t = threadIdx.x, at = blockIdx.x * n + t;
    if (t < n) {
        now[t].scale = a[at];
        now[t].shift = b[at];
    }
    __syncthreads();  // steps are here
    for (int reach = 1; reach < n; reach *= 2) {
        if (t < n) next[t] = t >= reach ? together(now[t - reach], now[t]) : now[t];
        __syncthreads();  // one round
        Step* swap = now;
        now = next;
        next = swap;
    }
    if (t < n) h[at] = now[t].shift;
}
