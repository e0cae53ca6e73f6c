// CUDA C for a C++ compiler: CUDA's built-ins, so that the text of a kernel compiles for the CPU unchanged.
//
// Each thread of a block is a fiber. `__shared__` becomes `thread_local`: all fibers of a block run on one thread of the
// operating system, so they share it, and concurrent blocks do not. Arrays are aligned to 64 KiB, so that the bytes after
// each belong to no array.
//
// What not every kernel uses is included after this file where the kernel's text names it (translation/unit.py):
// atomics.h, cluster_functions.h, functions.h, packed.h, rounding.h and warps.h. Each takes the compiler several milliseconds.
//
// Depends on: intrinsics.h, parameters.h, ptx.h, runtime.h, tensor_cores.h, types.h, version.h
#pragma once

#define alignas(bytes) __attribute__((aligned(bytes)))   // the keyword may not follow __shared__

#include "intrinsics.h"
#include "parameters.h"
#include "ptx.h"
#include "runtime.h"
#include "tensor_cores.h"
#include "types.h"
#include "version.h"

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1

// As on a GPU, calls are inlined: GCC instruments no store of a structure that a call returns.
#define __global__ __attribute__((noinline, flatten))
#define __device__ __attribute__((aligned(64)))   // what lies behind a variable is none of it
#define __host__
#define __constant__ __attribute__((aligned(64)))
#define __managed__ __attribute__((aligned(64)))
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __maxnreg__(registers)
#define __cluster_dims__(...)   // translation/syntax.py reads it
#define __align__(bytes) __attribute__((aligned(bytes)))
#if defined(__clang__)
// Clang would split a variable that no other unit sees, or fold one that nothing writes.
#define __shared__ thread_local __attribute__((aligned(65536), used))
#elif __GNUC__ < 10
#define __shared__ thread_local __attribute__((aligned(65536)))
#else
// GCC would look up whether an array of a class is initialised, although its constructor does nothing.
#define __shared__ __constinit thread_local __attribute__((aligned(65536)))
#endif
#define __restrict__ __restrict

#define threadIdx (tiledmm_thread_index())
#define blockIdx (tiledmm_block_index())
#define blockDim (tiledmm_block_size())
#define gridDim (tiledmm_grid_size())
#define warpSize 32

// ---- barriers, fences and time ----

// Each place has a number, so that two barriers on one line are two.
#define __syncthreads() tiledmm_sync_threads(__COUNTER__)
#define __syncthreads_count(...) static_cast<int>(tiledmm_sync_threads_count(__COUNTER__, static_cast<bool>(__VA_ARGS__)))
#define __syncthreads_or(...) static_cast<int>(tiledmm_sync_threads_count(__COUNTER__, static_cast<bool>(__VA_ARGS__)) != 0)
#define __syncthreads_and(...) static_cast<int>(tiledmm_sync_threads_count(__COUNTER__, !static_cast<bool>(__VA_ARGS__)) == 0)

__forceinline__ void __syncwarp() { tiledmm_sync_whole_warp(); }
__forceinline__ void __syncwarp(unsigned mask) { tiledmm_sync_warp(mask); }
__forceinline__ void __barrier_sync_count(unsigned id, unsigned threads) { tiledmm_named_barrier(id, threads, 1); }
__forceinline__ void __barrier_sync(unsigned id) {
    tiledmm_named_barrier(id, blockDim.x * blockDim.y * blockDim.z, 1);
}
__forceinline__ void __threadfence_block() { tiledmm_fence(0); }
__forceinline__ void __threadfence() { tiledmm_fence(1); }
__forceinline__ void __threadfence_system() { tiledmm_fence(2); }
__forceinline__ void __nanosleep(unsigned) { tiledmm_clock(); }   // others run at the next barrier or atomic
__forceinline__ long long clock64() { return tiledmm_clock(); }
__forceinline__ clock_t clock() { return static_cast<clock_t>(tiledmm_clock()); }
__forceinline__ void __trap() { tiledmm_trap(); }
__forceinline__ void __brkpt() {}
#define __prof_trigger(counter) static_cast<void>(counter)
// A GPU's compiler takes the condition for true and does not evaluate it.
#define __builtin_assume(...) (static_cast<bool>(__VA_ARGS__) ? static_cast<void>(0) : tiledmm_broken_rule(6))
#define __assume(...) __builtin_assume(__VA_ARGS__)

// ---- memory ----

__forceinline__ unsigned long long __cvta_generic_to_shared(const void* shared) { return tiledmm_shared_offset(shared); }
__forceinline__ unsigned long long __cvta_generic_to_global(const void* global) { return reinterpret_cast<unsigned long long>(global); }

__forceinline__ unsigned __isGlobal(const void* at) { return tiledmm_space(at) == 1; }
__forceinline__ unsigned __isShared(const void* at) { return tiledmm_space(at) == 0; }
__forceinline__ unsigned __isLocal(const void* at) { return tiledmm_space(at) == 2; }
__forceinline__ unsigned __isConstant(const void* at) { return tiledmm_space(at) == 3; }

// Variables of a thread are copied as one; other memory byte by byte, so that each access is checked.
__forceinline__ void* memcpy(void* to, const void* from, size_t bytes) {
    if (__builtin_constant_p(bytes) && bytes <= 16) return __builtin_memcpy(to, from, bytes);
    for (size_t i = 0; i < bytes; ++i) static_cast<volatile unsigned char*>(to)[i] = static_cast<const volatile unsigned char*>(from)[i];
    return to;
}
__forceinline__ void* memset(void* to, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) static_cast<volatile unsigned char*>(to)[i] = static_cast<unsigned char>(value);
    return to;
}
__forceinline__ void* memmove(void* to, const void* from, size_t bytes) {
    if (to <= from) return memcpy(to, from, bytes);
    for (size_t i = bytes; i-- > 0;) static_cast<volatile unsigned char*>(to)[i] = static_cast<const volatile unsigned char*>(from)[i];
    return to;
}

__forceinline__ void* malloc(size_t bytes) { return tiledmm_allocate(bytes, 16, nullptr); }
__forceinline__ void free(void* at) { tiledmm_free(at, nullptr); }

namespace tiledmm_detail {
// The arguments of __cluster_dims__.
struct ClusterDims {
    unsigned x = 1, y = 1, z = 1;
    constexpr unsigned at(unsigned axis) const { return axis == 0 ? x : axis == 1 ? y : z; }
};
}   // namespace tiledmm_detail

// The value for possibly unset variables (check/unset.py), of any type: every byte the same.
namespace tiledmm_detail {
template <int BYTE>
struct Filled {
    template <class T>
    __forceinline__ operator T() const {
        T value;
        __builtin_memset(&value, BYTE, sizeof value);
        return value;
    }
    // A structure or an array, unless its constructor sets it.
    template <class T>
    static __forceinline__ void fill(T& variable) {
        if constexpr (__is_trivially_constructible(T))
            __builtin_memset(const_cast<void*>(static_cast<const volatile void*>(&variable)), BYTE, sizeof variable);
    }
};
using Zeros = Filled<0>;
using Ones = Filled<0xff>;
using Great = Filled<0x7b>;   // 61,000 in half precision, 1e36 in single

// What a function returns that ends without a value (translation/returns.py).
struct NotReturned {
    template <class T>
    __forceinline__ operator T() const {
        tiledmm_not_returned();
        return Filled<TILEDMM_UNSET>();
    }
};
}   // namespace tiledmm_detail

// ---- text ----

namespace tiledmm_detail {
// What an argument of printf is: 'i' integer, 'f' number with a fraction, 'p' pointer, 'o' other.
template <class T>
constexpr char printed_kind() {
    constexpr unsigned kind = KindOf<T>::value;
    return kind == FLOAT ? 'f' : kind != OTHER || __is_enum(T) ? 'i' : 'o';
}
template <class T>
struct PrintedKind {
    static constexpr char value = printed_kind<T>();
};
template <class T>
struct PrintedKind<T*> {
    static constexpr char value = 'p';
};
template <>
struct PrintedKind<decltype(nullptr)> {
    static constexpr char value = 'p';
};
}   // namespace tiledmm_detail

template <class... Arguments>
__forceinline__ int printf(const char* format, Arguments... arguments) {
    static constexpr char tiledmm_kinds[] = {tiledmm_detail::PrintedKind<Arguments>::value..., 0};
    tiledmm_check_printf(format, tiledmm_kinds);
    return tiledmm_printf(format, arguments...);
}
#ifdef NDEBUG
#define assert(...) static_cast<void>(0)
#else
#define assert(...) (static_cast<bool>(__VA_ARGS__) ? static_cast<void>(0) : tiledmm_assert_failed(#__VA_ARGS__))
#endif
