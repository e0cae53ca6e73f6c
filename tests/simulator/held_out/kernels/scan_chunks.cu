// Exclusive scan by one block, chunk after chunk, with the total so far in shared memory.
__device__ int warp_inclusive(int value, int lane) {
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(0xffffffffu, value, d);
        if (lane >= d) value += other;
    }
    return value;
}

__global__ void scan_chunks(const int* in, int* out, int n) {
    __shared__ int warp_sums[8];
    __shared__ int carry;
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    if (threadIdx.x == 0) carry = 0;
    for (int base = 0; base < n; base += blockDim.x) {
        int i = base + threadIdx.x;
        int value = i < n ? in[i] : 0;
        int inclusive = warp_inclusive(value, lane);
        if (lane == 31) warp_sums[warp] = inclusive;
        __syncthreads();  // sums of warps
        if (warp == 0) {
            int part = lane < 8 ? warp_sums[lane] : 0;
            part = warp_inclusive(part, lane);
            if (lane < 8) warp_sums[lane] = part;
        }
        __syncthreads();  // their scan
        int before = carry + (warp > 0 ? warp_sums[warp - 1] : 0);
        if (i < n) out[i] = before + inclusive - value;
        __syncthreads();  // all have read carry
        if (threadIdx.x == blockDim.x - 1) carry = before + inclusive;
    }
}
