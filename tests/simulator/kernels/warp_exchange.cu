// Lanes exchange through global memory, with __syncwarp in between.
__global__ void warp_exchange(const int* in, int* scratch, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32;
    int first = i - lane;
    scratch[i] = in[i] * 2;
    __syncwarp();
    out[i] = scratch[first + (lane + 1) % 32] + in[i];
}
