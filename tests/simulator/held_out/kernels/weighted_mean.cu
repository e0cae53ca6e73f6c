// A weighted mean in double precision: the last block adds the sums of all.
__global__ void weighted_mean(const double* x, const double* w, double* mean, double* scratch, unsigned* done, int n) {
    __shared__ double2 s[128];
    __shared__ bool last;
    int t = threadIdx.x;
    double2 mine = make_double2(0.0, 0.0);
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += blockDim.x * gridDim.x) {
        mine.x += w[i] * x[i];
        mine.y += w[i];
    }
    s[t] = mine;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();  // the sums so far
        if (t < half) {
            s[t].x += s[t + half].x;
            s[t].y += s[t + half].y;
        }
    }
    if (t == 0) {
        scratch[2 * blockIdx.x] = s[0].x;
        scratch[2 * blockIdx.x + 1] = s[0].y;
        __threadfence();  // sums before the count
        last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();  // last
    if (last && t == 0) {
        __threadfence();  // count before the sums
        double above = 0, below = 0;
        for (int b = 0; b < gridDim.x; ++b) {
            above += scratch[2 * b];
            below += scratch[2 * b + 1];
        }
        *mean = above / below;
    }
}
