// Two dependent kernels. The second may begin while the first still runs: it reads what nobody writes (weights)
// before it waits, and what the first one writes (squares) after. In an ordinary launch both instructions do nothing.
#include "hopper.cuh"

__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

extern "C" __global__ void write_squares(const int* in, const int* weights, int* squares, int* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    griddepcontrol_launch_dependents();   // early, as the next kernel's wait is for the end of this one
    squares[i] = in[i] * in[i];
}

extern "C" __global__ void sum_squares(const int* in, const int* weights, int* squares, int* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, count = gridDim.x * blockDim.x;
    const int weight = weights[i];
    griddepcontrol_wait();
    out[i] = weight * squares[i] + squares[count - 1 - i];   // also of another block
}
