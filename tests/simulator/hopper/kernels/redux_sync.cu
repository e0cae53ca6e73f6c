// redux.sync reduces a value over the lanes of a mask in one instruction. The two halves of a warp each reduce with a
// mask of their own.
#include "hopper.cuh"

#define REDUX(operation)                                                                              \
    [](int value, u32 lanes) {                                                                        \
        int result;                                                                                   \
        asm volatile("redux.sync." operation " %0, %1, %2;" : "=r"(result) : "r"(value), "r"(lanes)); \
        return result;                                                                                \
    }

extern "C" __global__ void redux_sync(const int* in, int* out) {   // out (8, threads)
    const int t = threadIdx.x, threads = blockDim.x;
    const u32 lanes = t % 32 < 16 ? 0x0000ffff : 0xffff0000;
    const int value = in[t];

    out[0 * threads + t] = REDUX("add.s32")(value, lanes);
    out[1 * threads + t] = REDUX("min.s32")(value, lanes);
    out[2 * threads + t] = REDUX("max.s32")(value, lanes);
    out[3 * threads + t] = REDUX("min.u32")(value, lanes);
    out[4 * threads + t] = REDUX("max.u32")(value, lanes);
    out[5 * threads + t] = REDUX("and.b32")(value, 0xffffffff);   // and of the whole warp
    out[6 * threads + t] = REDUX("or.b32")(value, 0xffffffff);
    out[7 * threads + t] = REDUX("xor.b32")(value, 0xffffffff);
}
