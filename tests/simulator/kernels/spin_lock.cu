// A lock of atomicCAS and atomicExch; one thread a block takes it.
__device__ int mutex = 0;

__global__ void spin_lock(const int* in, int* total) {
    if (threadIdx.x == 0) {
        while (atomicCAS(&mutex, 0, 1) != 0) {
        }
        __threadfence();
        *total = *total + in[blockIdx.x];
        __threadfence();
        atomicExch(&mutex, 0);
    }
}
