// A template kernel: the type and the elements a thread are its parameters.
template <typename T, int PER_THREAD>
__global__ void template_scale(const T* in, T* out, T factor, int n) {
    int base = blockIdx.x * blockDim.x * PER_THREAD + threadIdx.x;
    T values[PER_THREAD];
#pragma unroll
    for (int j = 0; j < PER_THREAD; j++) {
        int i = base + j * blockDim.x;
        values[j] = i < n ? in[i] : T(0);
    }
#pragma unroll
    for (int j = 0; j < PER_THREAD; j++) {
        int i = base + j * blockDim.x;
        if (i < n) out[i] = values[j] * factor;
    }
}
