// The functions of cuda_src/ptx.cuh for the CPU: same names, same results.
// Depends on: intrinsics.h, runtime.h
#pragma once

#include "intrinsics.h"
#include "runtime.h"

// ---- conversions: rounded to nearest even, subnormals kept, one NaN for all NaNs ----

namespace tiledmm_detail {

// `significand` * 2^`exponent`, rounded to float16.
__forceinline__ unsigned short round_to_half(unsigned short sign, unsigned long long significand, int exponent) {
    if (significand == 0) return sign;
    const int top = 63 - __builtin_clzll(significand);
    // float16 has 11 significant bits, down to multiples of 2^-24.
    int drop = top - 10;
    if (exponent + drop < -24) drop = -24 - exponent;
    if (drop > 0) {
        if (drop > 63) return sign;
        const unsigned long long half = 1ull << (drop - 1), rest = significand & ((half << 1) - 1);
        significand >>= drop;
        significand += rest > half || (rest == half && significand & 1);
    } else {
        significand <<= -drop;
    }
    exponent += drop;
    if (significand >> 11) {   // rounded up to the next power of two
        significand >>= 1;
        ++exponent;
    }
    if (!(significand >> 10)) return sign | static_cast<unsigned short>(significand);   // subnormal: exponent is -24
    const int biased = exponent + 10 + 15;
    if (biased >= 31) return sign | 0x7c00;
    return sign | static_cast<unsigned short>(biased << 10) | static_cast<unsigned short>(significand & 0x3ff);
}

}   // namespace tiledmm_detail

namespace tiledmm_package {

__forceinline__ float half_to_float(unsigned short bits) {
    const unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (exponent == 31) return __uint_as_float(fraction ? 0x7fffffffu : sign | 0x7f800000u);
    if (exponent) return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
    const float tiny = static_cast<float>(static_cast<int>(fraction)) * (1.0f / 16777216);   // exact
    return __uint_as_float(sign | __float_as_uint(tiny));
}

__forceinline__ unsigned short float_to_half(float value) {
    const unsigned bits = __float_as_uint(value);
    const unsigned short sign = bits >> 16 & 0x8000;
    const unsigned exponent = bits >> 23 & 255, fraction = bits & 0x7fffff;
    if (exponent == 255) return fraction ? 0x7fff : static_cast<unsigned short>(sign | 0x7c00);
    if (exponent == 0) return sign;   // far below half of float16's smallest subnormal
    return tiledmm_detail::round_to_half(sign, fraction | 0x800000u, static_cast<int>(exponent) - 150);
}

__forceinline__ unsigned short float_to_bfloat(float value) {
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;   // NaN
    return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__forceinline__ unsigned short double_to_half(double value) {
    const unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(value));
    const unsigned short sign = bits >> 48 & 0x8000;
    const unsigned exponent = bits >> 52 & 2047;
    const unsigned long long fraction = bits & 0xfffffffffffffull;
    if (exponent == 2047) return fraction ? 0x7fff : static_cast<unsigned short>(sign | 0x7c00);
    if (exponent < 1023 - 30) return sign;
    return tiledmm_detail::round_to_half(sign, fraction | 1ull << 52, static_cast<int>(exponent) - 1075);
}

__forceinline__ double float_to_double(float value) {
    return value == value ? value : __longlong_as_double(0x7fffffffffffffffll);
}

__forceinline__ float double_to_float(double value) {
    return value == value ? static_cast<float>(value) : __uint_as_float(0x7fffffffu);
}

__forceinline__ float negate(float x) { return x == x ? -x : __uint_as_float(0x7fffffffu); }

__forceinline__ float add(float x, float y) {
    const float sum = x + y;
    return sum == sum ? sum : __uint_as_float(0x7fffffffu);
}

__forceinline__ unsigned dot_of_bytes(unsigned a, unsigned b, unsigned sum) {
    for (int shift = 0; shift < 32; shift += 8) sum += (a >> shift & 255u) * (b >> shift & 255u);
    return sum;
}
__forceinline__ unsigned dot_of_signed_bytes(unsigned a, unsigned b, unsigned sum) {
    for (int shift = 0; shift < 32; shift += 8)
        sum += static_cast<unsigned>(static_cast<signed char>(a >> shift) * static_cast<signed char>(b >> shift));
    return sum;
}

// ---- programmatic dependent launch: launches are simulated one after the other ----

__forceinline__ void griddepcontrol_wait() { ::tiledmm_wait_for_launch(); }
__forceinline__ void griddepcontrol_launch_dependents() {}

// ---- loads beside atomics ----

__forceinline__ int load_relaxed(const int* global) { return *static_cast<const volatile int*>(global); }

// ---- vector stores ----

template <class T>
__forceinline__ void store(T* global, const T& vector) {
    *global = vector;
}

// ---- asynchronous copies ----

template <int BYTES>
__forceinline__ void cp_async(void* shared, const void* global, int source_bytes) {
    tiledmm_copy_async(shared, global, BYTES, static_cast<unsigned>(source_bytes));
}

template <int N, class T>
__forceinline__ void copy_async(T* shared, const T* global, int count) {
    constexpr int SIZE = sizeof(T);
    static_assert(N * SIZE == 4 || N * SIZE == 8 || N * SIZE == 16, "cp.async copies 4, 8 or 16 bytes");
#if __CUDA_ARCH__ >= 800
    cp_async<N * SIZE>(shared, global, count * SIZE);
#else
    for (int i = 0; i < N; ++i) shared[i] = i < count ? global[i] : T{};
#endif
}

__forceinline__ void copy_chunk_async(void* shared, const void* global) { cp_async<16>(shared, global, 16); }

__forceinline__ void commit_copies() { tiledmm_commit_copies(); }

template <int PENDING>
__forceinline__ void wait_for_copies_except() {
    tiledmm_wait_for_copies(PENDING);
}

__forceinline__ void wait_for_copies() { tiledmm_wait_for_all_copies(); }

}   // namespace tiledmm_package

// Other texts may have functions of these names.
#ifndef TILEDMM_OTHER_TEXT
using namespace tiledmm_package;
#endif
