// Atomics on global and shared memory. They are no races among themselves, and order no other access.
// Depends on: intrinsics.h, runtime.h
#pragma once

#include "intrinsics.h"
#include "runtime.h"

namespace tiledmm_detail {

// Replaces the value at a place by change(value), and returns the old one. Values are compared by their bits: a NaN equals itself.
// IS_MONOTONE: to do it again changes nothing, so a plain read before it may find out that it is not needed.
template <bool IS_MONOTONE = false, class T, class Change>
__forceinline__ T atomically(T* at, Change change) {
    if constexpr (IS_MONOTONE) tiledmm_monotone_access(at, sizeof(T));
    else tiledmm_atomic_access(at, sizeof(T));
    Bits<T> old, changed;
    __builtin_memset(&old, 0, sizeof old);
    do {
        const T value = change(bits_as<T>(old));
        __builtin_memcpy(&changed, &value, sizeof changed);
    } while (!tiledmm_compare_and_swap(at, &old, &changed, sizeof(T), 0));
    return bits_as<T>(old);
}

// Around an atomic for threads of one block only: with another block's it races.
struct BlockScope {
    __forceinline__ BlockScope() { tiledmm_block_scope(1); }
    __forceinline__ ~BlockScope() { tiledmm_block_scope(0); }
};

// One element after the other: a vector is not updated as a whole.
template <class T, class V>
__forceinline__ T add_element(T* at, V value) {
    return atomically(at, [value](T old) { return old + value; });
}

// Any type of 16 bytes, for the 128-bit atomics: a structure takes part as it is.
template <class T, bool IS = sizeof(T) == 16>
struct Of16Bytes {};
template <class T>
struct Of16Bytes<T, true> {
    using type = T;
};

}   // namespace tiledmm_detail

#define TILEDMM_ATOMIC(name, is_monotone, type, expression)                                              \
    __forceinline__ type name(type* at, type value) {                                                    \
        return tiledmm_detail::atomically<is_monotone>(at, [value](type old) -> type { return expression; }); \
    }                                                                                                    \
    __forceinline__ type name##_block(type* at, type value) {                                            \
        tiledmm_detail::BlockScope scope;                                                                \
        return name(at, value);                                                                          \
    }                                                                                                    \
    __forceinline__ type name##_system(type* at, type value) { return name(at, value); }
#define TILEDMM_ATOMIC_INTEGERS(name, is_monotone, expression)                \
    TILEDMM_ATOMIC(name, is_monotone, int, expression)                        \
    TILEDMM_ATOMIC(name, is_monotone, unsigned, expression)                   \
    TILEDMM_ATOMIC(name, is_monotone, unsigned long long, expression)
#define TILEDMM_ATOMIC_ALL_INTEGERS(name, is_monotone, expression)            \
    TILEDMM_ATOMIC_INTEGERS(name, is_monotone, expression)                    \
    TILEDMM_ATOMIC(name, is_monotone, long long, expression)

TILEDMM_ATOMIC(atomicAdd, false, int, static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value)))
TILEDMM_ATOMIC(atomicAdd, false, unsigned, old + value)
TILEDMM_ATOMIC(atomicAdd, false, unsigned long long, old + value)
TILEDMM_ATOMIC(atomicAdd, false, float, old + value)
TILEDMM_ATOMIC(atomicAdd, false, double, old + value)
TILEDMM_ATOMIC(atomicSub, false, int, static_cast<int>(static_cast<unsigned>(old) - static_cast<unsigned>(value)))
TILEDMM_ATOMIC(atomicSub, false, unsigned, old - value)
TILEDMM_ATOMIC_INTEGERS(atomicExch, false, (static_cast<void>(old), value))
TILEDMM_ATOMIC(atomicExch, false, float, (static_cast<void>(old), value))
TILEDMM_ATOMIC_ALL_INTEGERS(atomicMin, true, value < old ? value : old)
TILEDMM_ATOMIC_ALL_INTEGERS(atomicMax, true, value > old ? value : old)
TILEDMM_ATOMIC(atomicInc, false, unsigned, old >= value ? 0 : old + 1)
TILEDMM_ATOMIC(atomicDec, false, unsigned, old == 0 || old > value ? value : old - 1)
TILEDMM_ATOMIC_INTEGERS(atomicAnd, true, old & value)
TILEDMM_ATOMIC_INTEGERS(atomicOr, true, old | value)
TILEDMM_ATOMIC_INTEGERS(atomicXor, false, old ^ value)
#undef TILEDMM_ATOMIC_ALL_INTEGERS
#undef TILEDMM_ATOMIC_INTEGERS
#undef TILEDMM_ATOMIC

#define TILEDMM_ATOMIC_CAS(type, header, result)                                                         \
    header __forceinline__ result atomicCAS(type* at, type expected, type desired) {                     \
        tiledmm_compare_access(at, sizeof(type));                                                        \
        tiledmm_compare_and_swap(at, &expected, &desired, sizeof(type), 1);                              \
        return expected;                                                                                 \
    }                                                                                                    \
    header __forceinline__ result atomicCAS_block(type* at, type expected, type desired) {               \
        tiledmm_detail::BlockScope scope;                                                                \
        return atomicCAS(at, expected, desired);                                                         \
    }                                                                                                    \
    header __forceinline__ result atomicCAS_system(type* at, type expected, type desired) {              \
        return atomicCAS(at, expected, desired);                                                         \
    }
TILEDMM_ATOMIC_CAS(int, , int)
TILEDMM_ATOMIC_CAS(unsigned, , unsigned)
TILEDMM_ATOMIC_CAS(unsigned long long, , unsigned long long)
TILEDMM_ATOMIC_CAS(unsigned short, , unsigned short)
#if __CUDA_ARCH__ >= 900
TILEDMM_ATOMIC_CAS(T, template <class T>, typename tiledmm_detail::Of16Bytes<T>::type)

template <class T>
__forceinline__ typename tiledmm_detail::Of16Bytes<T>::type atomicExch(T* at, T value) {
    return tiledmm_detail::atomically(at, [value](T) { return value; });
}
template <class T>
__forceinline__ typename tiledmm_detail::Of16Bytes<T>::type atomicExch_block(T* at, T value) {
    tiledmm_detail::BlockScope scope;
    return atomicExch(at, value);
}
template <class T>
__forceinline__ typename tiledmm_detail::Of16Bytes<T>::type atomicExch_system(T* at, T value) {
    return atomicExch(at, value);
}

#define TILEDMM_ATOMIC_VECTOR(type, ...)                                                                 \
    __forceinline__ type atomicAdd(type* at, type value) { return {__VA_ARGS__}; }                       \
    __forceinline__ type atomicAdd_block(type* at, type value) {                                         \
        tiledmm_detail::BlockScope scope;                                                                \
        return atomicAdd(at, value);                                                                     \
    }                                                                                                    \
    __forceinline__ type atomicAdd_system(type* at, type value) { return atomicAdd(at, value); }
TILEDMM_ATOMIC_VECTOR(float2, atomicAdd(&at->x, value.x), atomicAdd(&at->y, value.y))
TILEDMM_ATOMIC_VECTOR(float4, atomicAdd(&at->x, value.x), atomicAdd(&at->y, value.y), atomicAdd(&at->z, value.z),
                      atomicAdd(&at->w, value.w))
#undef TILEDMM_ATOMIC_VECTOR
#endif
#undef TILEDMM_ATOMIC_CAS
