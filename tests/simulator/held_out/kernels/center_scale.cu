// Numbers less their mean, as hundredths of the largest: blocks sum their parts, and the last of them does the rest.
__global__ void center_scale(const int* x, int* y, int* partial, unsigned* arrived, int n) {
    __shared__ int total, largest;
    __shared__ bool last;
    int tid = threadIdx.x;
    if (tid == 0) {
        total = 0;
        largest = 0;
    }
    __syncthreads();  // zeros
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + tid; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    atomicAdd(&total, sum);
    __syncthreads();  // the block's sum
    if (tid == 0) {
        partial[blockIdx.x] = total;
        __threadfence();  // before the count
        last = atomicAdd(arrived, 1u) == gridDim.x - 1;
        __threadfence();  // after the count
    }
    __syncthreads();  // last or not
    if (!last) return;
    int all = 0;
    for (int k = 0; k < (int)gridDim.x; k++) all += partial[k];
    int mean = all / n;
    for (int i = tid; i < n; i += blockDim.x) atomicMax(&largest, abs(x[i] - mean));
    __syncthreads();  // the largest
    for (int i = tid; i < n; i += blockDim.x) y[i] = (x[i] - mean) * 100 / largest;
}
