// Morton codes of points on a grid of 64 x 64, and how many points lie in each of 64 squares.
__device__ unsigned spread(unsigned v) {
    v = (v | v << 4) & 0x0F0Fu;
    v = (v | v << 2) & 0x3333u;
    v = (v | v << 1) & 0x5555u;
    return v;
}

__global__ void morton_bins(const float2* points, unsigned short* codes, int* bins, int n) {
    __shared__ int local[64];
    local[threadIdx.x] = 0;
    __syncthreads();  // zeros
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned x = min((unsigned)(points[i].x * 64.0f), 63u), y = min((unsigned)(points[i].y * 64.0f), 63u);
        unsigned code = spread(x) | spread(y) << 1;
        codes[i] = (unsigned short)code;
        atomicAdd(&local[code >> 6], 1);
    }
    __syncthreads();  // counted
    if (local[threadIdx.x] > 0) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
