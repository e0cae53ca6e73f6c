// One warp hands elements to another through shared memory, by a flag with fences around it.
__global__ void relay(const int* in, int* out) {
    __shared__ int data[32];
    __shared__ int ready;
    int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();  // no flag
    if (threadIdx.x < 32) {
        data[lane] = 2 * in[lane];
        __syncwarp();
        if (lane == 0) {
            __threadfence_block();  // elements before the flag
            atomicExch(&ready, 1);
        }
    } else {
        while (atomicAdd(&ready, 0) == 0) {
        }
        __threadfence_block();  // flag before the elements
        out[lane] = data[31 - lane];
    }
}
