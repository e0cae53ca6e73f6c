// What cuda_fp16.h and cuda_bf16.h share: exact results, which they round once.
// Depends on: atomics.h, functions.h, intrinsics.h, ptx.h, rounding.h, runtime.h, warps.h
#pragma once

#include "atomics.h"
#include "functions.h"
#include "intrinsics.h"
#include "ptx.h"
#include "rounding.h"
#include "runtime.h"
#include "warps.h"

namespace tiledmm_detail {

using namespace tiledmm_package;

// A double that rounds to fewer bits as the exact result does: its last bit is set if there is a rest.
template <class Rest>
__forceinline__ double sticky(double x, Rest rest) {
    if (rest == 0 || !__builtin_isfinite(x) || __double_as_longlong(x) & 1) return x;
    return neighbour(x, rest > 0);
}
__forceinline__ double exact_sum(double x, double y) {
    const double sum = rounded(x + y);
    return __builtin_isfinite(sum) ? sticky(sum, rest_of_sum(x, y, sum)) : sum;
}
// x * y + z, where x * y is exact.
__forceinline__ double exact_fma(double x, double y, double z) { return exact_sum(rounded(x * y), z); }
template <class T>
__forceinline__ double exact_integer(T x) {
    const double nearest = static_cast<double>(x);
    return sizeof(T) < 8 ? nearest : sticky(nearest, Quad(x) - Quad(nearest));
}
__forceinline__ double saturated_to_one(double x) { return x > 0 ? x < 1 ? x : 1 : 0; }
__forceinline__ double not_negative(double x) { return x < 0 ? 0 : x; }
// The smaller (sign 1) or larger (-1) of two; -0 is less than 0. NaN only if both are, or if it is to be kept.
__forceinline__ double extreme(double x, double y, int sign, bool keeps_nan) {
    if (x != x || y != y) return keeps_nan || (x != x && y != y) ? __builtin_nan("") : x != x ? y : x;
    if (x == y) return (__builtin_signbit(x) != 0) == (sign > 0) ? x : y;
    return (x < y) == (sign > 0) ? x : y;
}

// Bits of a float with fewer bits: steps from the nearest to its neighbour, as `stepped`. Both formats order by magnitude.
template <Rounding R>
__forceinline__ unsigned short stepped_bits(unsigned short nearest, double rest) {
    const bool negative = nearest & 0x8000, zero = !(nearest & 0x7fff);
    if (rest > 0 && (R == RU || (R == RZ && negative && !zero))) return zero ? 1 : negative ? nearest - 1 : nearest + 1;
    if (rest < 0 && (R == RD || (R == RZ && !negative && !zero))) return zero ? 0x8001 : negative ? nearest + 1 : nearest - 1;
    return nearest;
}

struct Float16Bits {
    static __forceinline__ double value(unsigned short bits) { return half_to_float(bits); }
    static __forceinline__ unsigned short nearest(double x) { return double_to_half(x); }
};
struct Bfloat16Bits {
    static __forceinline__ double value(unsigned short bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
    static __forceinline__ unsigned short nearest(double x) {
        if (!__builtin_isfinite(x)) return float_to_bfloat(static_cast<float>(x));
        const float cut = to_float<RZ>(x);   // with a last bit for the rest
        return float_to_bfloat(cut == x ? cut : __uint_as_float(__float_as_uint(cut) | 1));
    }
};
template <class Bits, Rounding R>
__forceinline__ unsigned short bits_of(double x) {
    const unsigned short nearest = Bits::nearest(x);
    return R == RN || !__builtin_isfinite(x) ? nearest : stepped_bits<R>(nearest, x - Bits::value(nearest));
}

}   // namespace tiledmm_detail

struct __half;
struct __half2;
struct __nv_bfloat16;
struct __nv_bfloat162;
