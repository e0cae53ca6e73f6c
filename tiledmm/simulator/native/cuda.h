// CUDA C for a C++ compiler: CUDA's built-ins, so that the text of a kernel compiles for the CPU unchanged.
//
// Each thread of a block is a fiber. `__shared__` becomes `thread_local`: all fibers of a block run on one thread of the
// operating system, so they share it, and concurrent blocks do not. Arrays are aligned to 64 KiB, so that the bytes after
// each belong to no array.
//
// Depends on: runtime.h, intrinsics.h, ptx.h, tensor_cores.h
#pragma once

#define alignas(bytes) __attribute__((aligned(bytes)))   // the keyword may not follow __shared__

#include "intrinsics.h"
#include "ptx.h"
#include "runtime.h"
#include "tensor_cores.h"

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ thread_local __attribute__((aligned(65536)))
#define __restrict__ __restrict

#define threadIdx (tiledmm_thread_index())
#define blockIdx (tiledmm_block_index())
#define blockDim (tiledmm_block_size())
#define gridDim (tiledmm_grid_size())
#define warpSize 32

// ---- barriers and warps ----

#define __syncthreads() tiledmm_sync_threads(__COUNTER__)
#define __syncthreads_count(predicate) static_cast<int>(tiledmm_sync_threads_count(__COUNTER__, predicate))
#define __syncthreads_or(predicate) static_cast<int>(tiledmm_sync_threads_count(__COUNTER__, predicate) != 0)
#define __syncthreads_and(predicate) static_cast<int>(tiledmm_sync_threads_count(__COUNTER__, !(predicate)) == 0)

__forceinline__ void __syncwarp(unsigned mask = 0xffffffffu) { tiledmm_sync_warp(mask); }
__forceinline__ void __threadfence_block() { tiledmm_fence(0); }
__forceinline__ void __threadfence() { tiledmm_fence(1); }
__forceinline__ void __threadfence_system() { tiledmm_fence(2); }

namespace tiledmm_detail {

template <class T>
__forceinline__ T exchange(unsigned mask, T value, unsigned source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 2, "a shuffle moves 2, 4 or 8 bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    tiledmm_exchange(mask, bits, 1);
    bits = tiledmm_exchanged(source);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

}   // namespace tiledmm_detail

template <class T>
__forceinline__ T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const unsigned lane = tiledmm_lane();
    return tiledmm_detail::exchange(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
__forceinline__ T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
    const unsigned lane = tiledmm_lane();
    const unsigned source = lane ^ lanes;   // a lane of a later segment keeps its own value
    return tiledmm_detail::exchange(mask, value, source < (lane & ~(width - 1)) + width ? source : lane);
}
template <class T>
__forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
    const unsigned lane = tiledmm_lane();
    return tiledmm_detail::exchange(mask, value, (lane & (width - 1)) >= lanes ? lane - lanes : lane);
}
template <class T>
__forceinline__ T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
    const unsigned lane = tiledmm_lane();
    return tiledmm_detail::exchange(mask, value, (lane & (width - 1)) + lanes < unsigned(width) ? lane + lanes : lane);
}
__forceinline__ unsigned __ballot_sync(unsigned mask, int predicate) {
    tiledmm_exchange(mask, predicate != 0, 2);
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1) votes |= unsigned(tiledmm_exchanged(lane)) << lane;
    return votes;
}
__forceinline__ int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
__forceinline__ int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

// ---- memory ----

__forceinline__ unsigned long long __cvta_generic_to_shared(const void* shared) { return tiledmm_shared_offset(shared); }
__forceinline__ int atomicMin(int* at, int value) {
    tiledmm_atomic_access(at, sizeof(int));
    int old = value, next = value;
    while (!tiledmm_compare_and_swap(at, &old, &next, sizeof(int)) && old > value) {
    }
    return old;
}
__forceinline__ void __trap() { tiledmm_trap(); }
#define memcpy(to, from, bytes) __builtin_memcpy(to, from, bytes)   // between variables of a thread: neither is checked
