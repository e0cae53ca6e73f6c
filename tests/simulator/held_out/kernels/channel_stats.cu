// The sum and the sum of squares of each channel: several blocks share a channel, and its last block adds their parts.
__global__ void channel_stats(const int* x, int2* partial, unsigned* count, int2* stats, int n) {
    __shared__ int2 part[2];
    __shared__ bool last;
    int channel = blockIdx.x, tid = threadIdx.x;
    int sum = 0, squares = 0;
    for (int i = blockIdx.y * blockDim.x + tid; i < n; i += gridDim.y * blockDim.x) {
        int v = x[channel * n + i];
        sum += v;
        squares += v * v;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xFFFFFFFFu, sum, offset);
        squares += __shfl_down_sync(0xFFFFFFFFu, squares, offset);
    }
    if (tid % 32 == 0) part[tid / 32] = make_int2(sum, squares);
    __syncthreads();  // the warps' parts
    if (tid == 0) {
        partial[channel * gridDim.y + blockIdx.y] = make_int2(part[0].x + part[1].x, part[0].y + part[1].y);
        __threadfence();  // before the count
        last = atomicInc(&count[channel], gridDim.y - 1) == gridDim.y - 1;
        __threadfence();  // after the count
    }
    __syncthreads();  // last or not
    if (last && tid < 32) {
        int2 p = tid < gridDim.y ? partial[channel * gridDim.y + tid] : make_int2(0, 0);
        for (int offset = 16; offset > 0; offset /= 2) {
            p.x += __shfl_down_sync(0xFFFFFFFFu, p.x, offset);
            p.y += __shfl_down_sync(0xFFFFFFFFu, p.y, offset);
        }
        if (tid == 0) stats[channel] = p;
    }
}
