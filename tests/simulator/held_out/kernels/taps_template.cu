// A filter of a radius that the compiler knows, with clamped edges; each block keeps its window in shared memory.
template <int Radius, int Size>
__device__ void load_window(int (&window)[Size + 2 * Radius], const int* x, int start, int n) {
    for (int i = threadIdx.x; i < Size + 2 * Radius; i += blockDim.x) {
        int at = min(max(start - Radius + i, 0), n - 1);
        window[i] = x[at];
    }
}

template <int Radius>
__device__ int filter(const int* center) {
    int sum = 0;
#pragma unroll
    for (int d = -Radius; d <= Radius; d++) sum += (Radius + 1 - abs(d)) * center[d];
    return sum;
}

__global__ void taps_template(const int* x, int* wide, int* narrow, int n) {
    constexpr int R = 4, T = 64;
    __shared__ int window[T + 2 * R];
    load_window<R, T>(window, x, blockIdx.x * T, n);
    __syncthreads();
    int i = blockIdx.x * T + threadIdx.x;
    if (i < n) {
        wide[i] = filter<R>(&window[threadIdx.x + R]);
        narrow[i] = filter<1>(&window[threadIdx.x + R]);
    }
}
