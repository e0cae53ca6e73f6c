// Scans of warps, a scan of their sums, and both added. Sums of blocks go to an array for the next launch.
__device__ int warp_scan(int v, int lane) {
    for (int d = 1; d < 32; d *= 2) {
        int up = __shfl_up_sync(0xffffffff, v, d);
        if (lane >= d) v += up;
    }
    return v;
}

__global__ void scan_block(const int* in, int* out, int* block_sums, int n) {
    __shared__ int warp_sums[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int v = warp_scan(i < n ? in[i] : 0, lane);
    if (lane == 31) warp_sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int sum = lane < blockDim.x / 32 ? warp_sums[lane] : 0;
        warp_sums[lane] = warp_scan(sum, lane);
    }
    __syncthreads();
    if (warp > 0) v += warp_sums[warp - 1];
    if (i < n) out[i] = v;
    if (threadIdx.x == blockDim.x - 1) block_sums[blockIdx.x] = v;
}
