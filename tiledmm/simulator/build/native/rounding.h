// Arithmetic and conversions with a named rounding: nearest even (rn), toward zero (rz), up (ru), down (rd).
//
// The result is rounded to nearest, and stepped to its neighbour where the sign of the exact rest says so. The rest of
// float is exact in double; that of double in 113 bits, or as the rest of a sum.
//
// Depends on: casts.h, intrinsics.h
#pragma once

#include "casts.h"
#include "intrinsics.h"

namespace tiledmm_detail {

#if __LDBL_MANT_DIG__ == 113
using Quad = long double;
#else
using Quad = __float128;
#endif

enum Rounding { RN, RZ, RU, RD };

__forceinline__ float neighbour(float x, bool up) {
    if (x == 0) return up ? 0x1p-149f : -0x1p-149f;
    return __uint_as_float(__float_as_uint(x) + ((x > 0) == up ? 1u : ~0u));
}
__forceinline__ double neighbour(double x, bool up) {
    if (x == 0) return up ? 0x1p-1074 : -0x1p-1074;
    return __longlong_as_double(__double_as_longlong(x) + ((x > 0) == up ? 1 : -1));
}

// The nearest number, and the exact result minus it (or anything of its sign).
template <Rounding R, class T, class Rest>
__forceinline__ T stepped(T nearest, Rest rest) {
    if (rest > 0 && (R == RU || (R == RZ && nearest < 0))) return neighbour(nearest, true);
    if (rest < 0 && (R == RD || (R == RZ && nearest > 0))) return neighbour(nearest, false);
    return nearest;
}

// high + low, where low is less than half of the last place of high, to float.
template <Rounding R>
__forceinline__ float to_float(double high, double low = 0) {
    const float nearest = static_cast<float>(high);
    if (!__builtin_isfinite(high)) return nearest;
    const double rest = high - nearest;   // -inf where the float is inf
    return stepped<R>(nearest, rest != 0 ? rest : low);
}

// What x + y leaves of the exact sum.
template <class T>
__forceinline__ T rest_of_sum(T x, T y, T sum) {
    const T part = sum - x;
    return (x - (sum - part)) + (y - part);
}

// An exact zero out of two terms that are not zeros of the same sign: -0 if rounded down.
template <Rounding R, class T>
__forceinline__ T signed_zero(T sum, T x, T y) {
    if (R == RD && sum == 0 && (__builtin_signbit(x) || __builtin_signbit(y))) return -T(0);
    return sum;
}

template <Rounding R>
__forceinline__ float add_rounded(float x, float y) {
    const double a = x, b = y, sum = rounded(a + b);
    if (sum == 0) return signed_zero<R>(static_cast<float>(sum), x, y);
    return to_float<R>(sum, rest_of_sum(a, b, sum));
}
template <Rounding R>
__forceinline__ float multiply_rounded(float x, float y) {
    return to_float<R>(rounded(static_cast<double>(x) * y));
}
template <Rounding R>
__forceinline__ float divide_rounded(float x, float y) {
    const double a = x, b = y, ratio = rounded(a / b), rest = __builtin_fma(-ratio, b, a);
    return to_float<R>(ratio, b < 0 ? -rest : rest);
}
template <Rounding R>
__forceinline__ float root_rounded(float x) {
    const double a = x, root = __builtin_sqrt(a);
    return to_float<R>(root, __builtin_fma(-root, root, a));
}
template <Rounding R>
__forceinline__ float fma_rounded(float x, float y, float z) {
    const double product = rounded(static_cast<double>(x) * y), c = z, sum = rounded(product + c);
    if (sum == 0) return product == 0 && z == 0 ? signed_zero<R>(static_cast<float>(sum), static_cast<float>(product), z)
                                                : R == RD ? -0.0f : 0.0f;
    return to_float<R>(sum, rest_of_sum(product, c, sum));
}

// A double where the nearest is infinite though the operands are finite.
template <Rounding R>
__forceinline__ double overflowed(double nearest) {
    return stepped<R>(nearest, nearest > 0 ? -1 : 1);
}

template <Rounding R>
__forceinline__ double add_rounded(double x, double y) {
    const double sum = rounded(x + y);
    if (!__builtin_isfinite(sum)) return __builtin_isfinite(x) && __builtin_isfinite(y) ? overflowed<R>(sum) : sum;
    if (sum == 0) return signed_zero<R>(sum, x, y);
    // Halves, so that no intermediate result overflows; they are exact where that can happen.
    if (__builtin_fabs(sum) > 0x1p1000) return stepped<R>(sum, rest_of_sum(x / 2, y / 2, sum / 2));
    return stepped<R>(sum, rest_of_sum(x, y, sum));
}
template <Rounding R>
__forceinline__ double multiply_rounded(double x, double y) {
    const double product = rounded(x * y);
    if (!__builtin_isfinite(product)) return __builtin_isfinite(x) && __builtin_isfinite(y) ? overflowed<R>(product) : product;
    return stepped<R>(product, Quad(x) * Quad(y) - Quad(product));
}
template <Rounding R>
__forceinline__ double divide_rounded(double x, double y) {
    const double ratio = rounded(x / y);
    if (ratio != ratio || y == 0 || __builtin_isinf(x) || __builtin_isinf(y)) return ratio;
    if (__builtin_isinf(ratio)) return overflowed<R>(ratio);
    const Quad rest = Quad(x) - Quad(ratio) * Quad(y);
    return stepped<R>(ratio, y < 0 ? -rest : rest);
}
template <Rounding R>
__forceinline__ double root_rounded(double x) {
    const double root = __builtin_sqrt(x);
    if (!__builtin_isfinite(root)) return root;
    return stepped<R>(root, Quad(x) - Quad(root) * Quad(root));
}
template <Rounding R>
__forceinline__ double fma_rounded(double x, double y, double z) {
    const double nearest = __builtin_fma(x, y, z);
    if (!__builtin_isfinite(nearest))
        return __builtin_isfinite(x) && __builtin_isfinite(y) && __builtin_isfinite(z) ? overflowed<R>(nearest) : nearest;
    const Quad product = Quad(x) * Quad(y), sum = product + Quad(z);
    if (sum == 0) return R == RD && (product != 0 || __builtin_signbit(x) != __builtin_signbit(y) || __builtin_signbit(z)) ? -0.0 : nearest;
    const Quad rest = sum - Quad(nearest);
    return stepped<R>(nearest, rest != 0 ? rest : rest_of_sum(product, Quad(z), sum));
}

// ---- integers ----

template <Rounding R>
__forceinline__ float whole(float x) {
    return R == RN ? __builtin_rintf(x) : R == RZ ? __builtin_truncf(x) : R == RU ? __builtin_ceilf(x) : __builtin_floorf(x);
}
template <Rounding R>
__forceinline__ double whole(double x) {
    return R == RN ? __builtin_rint(x) : R == RZ ? __builtin_trunc(x) : R == RU ? __builtin_ceil(x) : __builtin_floor(x);
}
template <Rounding R, class To, class From>
__forceinline__ To from_integer(From x) {
    const To nearest = static_cast<To>(x);
    return stepped<R>(nearest, Quad(x) - Quad(nearest));
}

}   // namespace tiledmm_detail

#define TILEDMM_ROUNDINGS(m) m(rz, RZ) m(ru, RU) m(rd, RD)
#define TILEDMM_ROUNDED(suffix, R)                                                                                       \
    __forceinline__ float __fadd_##suffix(float x, float y) { TILEDMM_COUNT_FLOPS(1); return tiledmm_detail::add_rounded<tiledmm_detail::R>(x, y); }        \
    __forceinline__ float __fsub_##suffix(float x, float y) { TILEDMM_COUNT_FLOPS(1); return tiledmm_detail::add_rounded<tiledmm_detail::R>(x, -y); }       \
    __forceinline__ float __fmul_##suffix(float x, float y) { TILEDMM_COUNT_FLOPS(1); return tiledmm_detail::multiply_rounded<tiledmm_detail::R>(x, y); }   \
    __forceinline__ float __fdiv_##suffix(float x, float y) { TILEDMM_COUNT_FLOPS(1); return tiledmm_detail::divide_rounded<tiledmm_detail::R>(x, y); }     \
    __forceinline__ float __fmaf_##suffix(float x, float y, float z) { TILEDMM_COUNT_FLOPS(2); return tiledmm_detail::fma_rounded<tiledmm_detail::R>(x, y, z); } \
    __forceinline__ float __fmaf_ieee_##suffix(float x, float y, float z) { return __fmaf_##suffix(x, y, z); }           \
    __forceinline__ float __frcp_##suffix(float x) { return tiledmm_detail::divide_rounded<tiledmm_detail::R>(1.0f, x); }   \
    __forceinline__ float __fsqrt_##suffix(float x) { return tiledmm_detail::root_rounded<tiledmm_detail::R>(x); }          \
    __forceinline__ double __dadd_##suffix(double x, double y) { TILEDMM_COUNT_FLOPS(1); return tiledmm_detail::add_rounded<tiledmm_detail::R>(x, y); }      \
    __forceinline__ double __dsub_##suffix(double x, double y) { TILEDMM_COUNT_FLOPS(1); return tiledmm_detail::add_rounded<tiledmm_detail::R>(x, -y); }     \
    __forceinline__ double __dmul_##suffix(double x, double y) { TILEDMM_COUNT_FLOPS(1); return tiledmm_detail::multiply_rounded<tiledmm_detail::R>(x, y); } \
    __forceinline__ double __ddiv_##suffix(double x, double y) { TILEDMM_COUNT_FLOPS(1); return tiledmm_detail::divide_rounded<tiledmm_detail::R>(x, y); }   \
    __forceinline__ double __fma_##suffix(double x, double y, double z) { TILEDMM_COUNT_FLOPS(2); return tiledmm_detail::fma_rounded<tiledmm_detail::R>(x, y, z); } \
    __forceinline__ double __drcp_##suffix(double x) { return tiledmm_detail::divide_rounded<tiledmm_detail::R>(1.0, x); }  \
    __forceinline__ double __dsqrt_##suffix(double x) { return tiledmm_detail::root_rounded<tiledmm_detail::R>(x); }
TILEDMM_ROUNDINGS(TILEDMM_ROUNDED)
#undef TILEDMM_ROUNDED
__forceinline__ float __frcp_rn(float x) { return 1 / x; }
__forceinline__ float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
__forceinline__ float __frsqrt_rn(float x) { return static_cast<float>(1 / __builtin_sqrt(x)); }
__forceinline__ double __drcp_rn(double x) { return 1 / x; }
__forceinline__ double __dsqrt_rn(double x) { return __builtin_sqrt(x); }

#define TILEDMM_CONVERSIONS(suffix, R)                                                                                    \
    __forceinline__ int __float2int_##suffix(float x) { return tiledmm_detail::saturated<int>(tiledmm_detail::whole<tiledmm_detail::R>(x)); }            \
    __forceinline__ unsigned __float2uint_##suffix(float x) { return tiledmm_detail::saturated<unsigned>(tiledmm_detail::whole<tiledmm_detail::R>(x)); } \
    __forceinline__ long long __float2ll_##suffix(float x) { return tiledmm_detail::saturated<long long>(tiledmm_detail::whole<tiledmm_detail::R>(x)); } \
    __forceinline__ unsigned long long __float2ull_##suffix(float x) { return tiledmm_detail::saturated<unsigned long long>(tiledmm_detail::whole<tiledmm_detail::R>(x)); } \
    __forceinline__ int __double2int_##suffix(double x) { return tiledmm_detail::saturated<int>(tiledmm_detail::whole<tiledmm_detail::R>(x)); }          \
    __forceinline__ unsigned __double2uint_##suffix(double x) { return tiledmm_detail::saturated<unsigned>(tiledmm_detail::whole<tiledmm_detail::R>(x)); } \
    __forceinline__ long long __double2ll_##suffix(double x) { return tiledmm_detail::saturated<long long>(tiledmm_detail::whole<tiledmm_detail::R>(x)); } \
    __forceinline__ unsigned long long __double2ull_##suffix(double x) { return tiledmm_detail::saturated<unsigned long long>(tiledmm_detail::whole<tiledmm_detail::R>(x)); } \
    __forceinline__ float __double2float_##suffix(double x) { return tiledmm_detail::to_float<tiledmm_detail::R>(x); }       \
    __forceinline__ float __int2float_##suffix(int x) { return tiledmm_detail::to_float<tiledmm_detail::R>(x); }             \
    __forceinline__ float __uint2float_##suffix(unsigned x) { return tiledmm_detail::to_float<tiledmm_detail::R>(x); }       \
    __forceinline__ float __ll2float_##suffix(long long x) { return tiledmm_detail::from_integer<tiledmm_detail::R, float>(x); }            \
    __forceinline__ float __ull2float_##suffix(unsigned long long x) { return tiledmm_detail::from_integer<tiledmm_detail::R, float>(x); }  \
    __forceinline__ double __ll2double_##suffix(long long x) { return tiledmm_detail::from_integer<tiledmm_detail::R, double>(x); }         \
    __forceinline__ double __ull2double_##suffix(unsigned long long x) { return tiledmm_detail::from_integer<tiledmm_detail::R, double>(x); }
TILEDMM_CONVERSIONS(rn, RN)
TILEDMM_ROUNDINGS(TILEDMM_CONVERSIONS)
#undef TILEDMM_CONVERSIONS
#undef TILEDMM_ROUNDINGS
__forceinline__ double __int2double_rn(int x) { return x; }
__forceinline__ double __uint2double_rn(unsigned x) { return x; }

// C's, which round to the current mode, or halves away from zero.
#define TILEDMM_TO_INTEGER(name, type, function)                                                                \
    __forceinline__ type name(double x) { return tiledmm_detail::saturated<type>(__builtin_##function(x)); }    \
    __forceinline__ type name##f(float x) { return tiledmm_detail::saturated<type>(__builtin_##function##f(x)); } \
    __forceinline__ type name(float x) { return name##f(x); }
TILEDMM_TO_INTEGER(lrint, long, rint)
TILEDMM_TO_INTEGER(llrint, long long, rint)
TILEDMM_TO_INTEGER(lround, long, round)
TILEDMM_TO_INTEGER(llround, long long, round)
#undef TILEDMM_TO_INTEGER
