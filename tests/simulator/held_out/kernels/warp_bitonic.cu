// Each warp sorts 32 elements in registers.
__global__ void warp_bitonic(int* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32;
    int value = i < n ? data[i] : INT_MAX;
    for (int size = 2; size <= 32; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            int other = __shfl_xor_sync(0xffffffffu, value, stride);
            bool up = (lane & size) == 0;
            bool lower = (lane & stride) == 0;
            value = up == lower ? min(value, other) : max(value, other);
        }
    }
    if (i < n) data[i] = value;
}
