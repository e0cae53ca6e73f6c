// atomicCAS until no other thread came between.
__device__ float atomic_max_float(float* address, float value) {
    int* bits = (int*)address;
    int old = *(volatile int*)bits, assumed;   // volatile: others write it meanwhile
    do {
        assumed = old;
        if (__int_as_float(assumed) >= value) break;
        old = atomicCAS(bits, assumed, __float_as_int(value));
    } while (assumed != old);
    return __int_as_float(old);
}

__global__ void atomic_max_float_kernel(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomic_max_float(out, in[i]);
}
