#define TILEDMM_CP_ASYNC (__CUDA_ARCH__ >= 800)   // whether there is cp.async

// Maximum resident threads of an SM.
#if __CUDA_ARCH__ == 750
#define TILEDMM_SM_THREADS 1024
#elif __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
#define TILEDMM_SM_THREADS 1536
#else
#define TILEDMM_SM_THREADS 2048
#endif

#ifndef TILEDMM_SIMULATOR   // the simulator defines these functions in C++: tiledmm/simulator/build/native/ptx.h

// Writes contiguous elements, aligned to their size, with vector stores: the compiler splits its own where a kernel also writes
// single elements. Their registers are consecutive; accumulators that were so would conflict in the mainloop (register banks). So a
// zero is added that the compiler does not know: blockIdx.z, as grids are one-dimensional. (ptxas bounds %laneid >> 5.)
template <class T>
__device__ __forceinline__ void store(T* global, const T& vector) {
    constexpr int COUNT = sizeof(T) / 4;
    if constexpr (sizeof(T) % 8 != 0) {
        *global = vector;
    } else {
        const unsigned zero = blockIdx.z;
        unsigned* const to = reinterpret_cast<unsigned*>(__cvta_generic_to_global(global));
        unsigned r[COUNT];
        memcpy(r, &vector, sizeof(T));
#pragma unroll
        for (int i = 0; i < COUNT; ++i) r[i] += zero;
        if constexpr (COUNT == 2)
            asm volatile("st.global.v2.b32 [%0], { %1, %2 };" ::"l"(to), "r"(r[0]), "r"(r[1]) : "memory");
        else
#pragma unroll
            for (int i = 0; i < COUNT; i += 4)
                asm volatile("st.global.v4.b32 [%0], { %1, %2, %3, %4 };" ::"l"(to + i), "r"(r[i]), "r"(r[i + 1]), "r"(r[i + 2]),
                             "r"(r[i + 3]) : "memory");
    }
}

// Programmatic dependent launch: the blocks of such a launch may begin before the launch before it has ended. The first function waits
// until it has, and what it wrote is visible; every block does, so that a launch that has ended has also waited. It returns at once in
// other launches. The second lets the next launch begin once all blocks have called it; otherwise that begins when they have ended.
__device__ __forceinline__ void griddepcontrol_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Reads what other blocks may be updating with atomics: like these a relaxed access, so no data race.
__device__ __forceinline__ int load_relaxed(const int* global) {
    int value;
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];"
                 : "=r"(value)
                 : "l"(__cvta_generic_to_global(global))
                 : "memory");
    return value;
}

// Starts to copy `count` of N elements, 4, 8 or 16 aligned bytes, to shared memory, and writes zeros for the others.
template <int N, class T>
__device__ __forceinline__ void copy_async(T* shared, const T* from, int count) {
    constexpr int SIZE = sizeof(T);
    static_assert(N * SIZE == 4 || N * SIZE == 8 || N * SIZE == 16, "cp.async copies 4, 8 or 16 bytes");
#if TILEDMM_CP_ASYNC
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const int bytes = N == 1 ? count ? SIZE : 0 : count * SIZE;   // a select takes fewer registers
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(N * SIZE), "r"(bytes) : "memory");
#else
    for (int i = 0; i < N; ++i) shared[i] = i < count ? from[i] : T{};
#endif
}

// Starts to copy 16 aligned bytes to shared memory, past L1: no other thread of the block reads them. L2 fetches their 128.
__device__ __forceinline__ void copy_chunk_async(void* shared, const void* from) {
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (TILEDMM_CP_ASYNC)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Commits this thread's copies to a group; waits until at most PENDING groups, or no copies, are in flight.
__device__ __forceinline__ void commit_copies() {
    if constexpr (TILEDMM_CP_ASYNC) asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int PENDING>
__device__ __forceinline__ void wait_for_copies_except() {
    if constexpr (TILEDMM_CP_ASYNC) asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
__device__ __forceinline__ void wait_for_copies() {
    if constexpr (TILEDMM_CP_ASYNC) asm volatile("cp.async.wait_all;" ::: "memory");
}

// ---- conversions and arithmetic that keep subnormals, rounded to nearest even. CuPy compiles with -ftz=true, which flushes them
// to zero in plain C++, but neither in inline PTX nor in the *_ieee_* intrinsics. cuBLAS keeps them, too. ----

__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;   // NaN
    return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

__device__ __forceinline__ unsigned short double_to_half(double value) {
    unsigned short bits;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(value));
    return bits;
}

__device__ __forceinline__ double float_to_double(float value) {
    double wide;
    asm("cvt.f64.f32 %0, %1;" : "=d"(wide) : "f"(value));
    return wide;
}

__device__ __forceinline__ float double_to_float(double value) {
    float narrow;
    asm("cvt.rn.f32.f64 %0, %1;" : "=f"(narrow) : "d"(value));
    return narrow;
}

__device__ __forceinline__ float add(float x, float y) {
    float sum;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(x), "f"(y));
    return sum;
}

__device__ __forceinline__ float negate(float x) {
    float negative;
    asm("neg.f32 %0, %1;" : "=f"(negative) : "f"(x));
    return negative;
}

// sum + the dot product of four unsigned bytes, modulo 2^32.
__device__ __forceinline__ unsigned dot_of_bytes(unsigned a, unsigned b, unsigned sum) {
    asm("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

// The same of signed bytes.
__device__ __forceinline__ unsigned dot_of_signed_bytes(unsigned a, unsigned b, unsigned sum) {
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

#endif
