// The largest element and where it is: two arrays in shared memory.
__global__ void argmax(const float* in, float* best, int* where, int n) {
    __shared__ float values[64];
    __shared__ int places[64];
    int tid = threadIdx.x;
    float value = -INFINITY;
    int place = -1;
    for (int i = tid; i < n; i += 64) {
        if (in[i] > value) {
            value = in[i];
            place = i;
        }
    }
    values[tid] = value;
    places[tid] = place;
    __syncthreads();
    for (int s = 32; s > 0; s >>= 1) {
        if (tid < s && values[tid + s] > values[tid]) {
            values[tid] = values[tid + s];
            places[tid] = places[tid + s];
        }
        __syncthreads();
    }
    if (tid == 0) {
        *best = values[0];
        *where = places[0];
    }
}
