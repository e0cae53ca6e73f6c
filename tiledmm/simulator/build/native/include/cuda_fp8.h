// Floating-point numbers of 8 bits, e4m3 and e5m2, alone and in vectors of two and four. Conversions are rounded once, to
// nearest even, as by the instructions of compute capability 8.9 and newer.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned;

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace tiledmm_detail {

struct Fp8Format {
    int fraction, bias;   // bits of the fraction
    double most;          // the largest number
    unsigned nan, infinity;

    __forceinline__ double least() const { return __builtin_ldexp(1, 1 - bias - fraction); }   // above 0
};
__forceinline__ Fp8Format fp8_format(__nv_fp8_interpretation_t kind) {
    return kind == __NV_E4M3 ? Fp8Format{3, 7, 448, 0x7f, 0x7f} : Fp8Format{2, 15, 57344, 0x7e, 0x7c};   // e4m3 has no infinity
}

__forceinline__ unsigned char to_fp8(double x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    const Fp8Format format = fp8_format(kind);
    const auto bits = static_cast<unsigned long long>(__double_as_longlong(x));
    const auto sign = static_cast<unsigned char>(bits >> 63 << 7);
    const double size = __builtin_fabs(x);
    if (x != x) return static_cast<unsigned char>(sign | format.nan | (kind == __NV_E5M2 ? bits >> 50 & 3 : 0));
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    const double unit = exponent > 1 - format.bias ? __builtin_ldexp(1, exponent - format.fraction) : format.least();
    const double nearest = size > 2 * format.most ? size : __builtin_rint(size / unit) * unit;
    if (nearest > format.most)
        return static_cast<unsigned char>(sign | (saturation == __NV_SATFINITE ? to_fp8(format.most, saturation, kind) : format.infinity));
    // Magnitudes in steps of the smallest number, which double from one exponent to the next, in the order of their bits.
    const auto steps = static_cast<unsigned long long>(nearest / format.least());
    const int top = steps >> format.fraction ? 63 - __builtin_clzll(steps) - format.fraction : 0;
    return static_cast<unsigned char>(sign | ((static_cast<unsigned long long>(top) << format.fraction) + (steps >> top)));
}

// Of fewer bits than a double's: all NaN become one.
__forceinline__ unsigned char narrow_to_fp8(float x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return x != x ? 0x7f : to_fp8(x, saturation, kind);
}

__forceinline__ float from_fp8(unsigned char bits, __nv_fp8_interpretation_t kind) {
    const Fp8Format format = fp8_format(kind);
    const unsigned size = bits & 0x7f;
    const bool negative = bits & 0x80;
    if (kind == __NV_E4M3 ? size == 0x7f : size > 0x7c) return __uint_as_float(0x7fffffff);
    const int exponent = static_cast<int>(size >> format.fraction);
    const auto fraction = size & ((1u << format.fraction) - 1);
    double value = __builtin_ldexp(exponent ? fraction + (1u << format.fraction) : fraction, (exponent ? exponent : 1) - format.bias - format.fraction);
    if (kind == __NV_E5M2 && size == 0x7c) value = __builtin_inf();
    return static_cast<float>(negative ? -value : value);
}

}   // namespace tiledmm_detail

// ---- conversions ----

__forceinline__ __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return tiledmm_detail::to_fp8(x, saturate, kind);
}
__forceinline__ __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return tiledmm_detail::narrow_to_fp8(x, saturate, kind);
}
__forceinline__ __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return tiledmm_detail::narrow_to_fp8(float(__half(x)), saturate, kind);
}
__forceinline__ __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return tiledmm_detail::narrow_to_fp8(float(__nv_bfloat16(x)), saturate, kind);
}
__forceinline__ __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    const unsigned high = __nv_cvt_double_to_fp8(x.y, saturate, kind);
    return static_cast<__nv_fp8x2_storage_t>(high << 8 | __nv_cvt_double_to_fp8(x.x, saturate, kind));
}
__forceinline__ __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    const unsigned high = __nv_cvt_float_to_fp8(x.y, saturate, kind);
    return static_cast<__nv_fp8x2_storage_t>(high << 8 | __nv_cvt_float_to_fp8(x.x, saturate, kind));
}
__forceinline__ __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    const unsigned high = __nv_cvt_halfraw_to_fp8({x.y}, saturate, kind);
    return static_cast<__nv_fp8x2_storage_t>(high << 8 | __nv_cvt_halfraw_to_fp8({x.x}, saturate, kind));
}
__forceinline__ __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw x, __nv_saturation_t saturate,
                                                                    __nv_fp8_interpretation_t kind) {
    const unsigned high = __nv_cvt_bfloat16raw_to_fp8({x.y}, saturate, kind);
    return static_cast<__nv_fp8x2_storage_t>(high << 8 | __nv_cvt_bfloat16raw_to_fp8({x.x}, saturate, kind));
}
__forceinline__ __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return __half(tiledmm_detail::from_fp8(x, kind));
}
__forceinline__ __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(x), kind).x, __nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(x >> 8), kind).x};
}

// ---- types ----

namespace tiledmm_detail {

template <__nv_fp8_interpretation_t KIND>
struct Fp8 {
    __nv_fp8_storage_t __x;

    Fp8() = default;
    __forceinline__ explicit Fp8(double x) : __x(to_fp8(x, __NV_SATFINITE, KIND)) {}
    __forceinline__ explicit Fp8(float x) : __x(narrow_to_fp8(x, __NV_SATFINITE, KIND)) {}
    __forceinline__ explicit Fp8(__half x) : Fp8(float(x)) {}
    __forceinline__ explicit Fp8(__nv_bfloat16 x) : Fp8(float(x)) {}
    __forceinline__ explicit operator float() const { return from_fp8(__x, KIND); }
    __forceinline__ explicit operator double() const { return float(*this); }
    __forceinline__ explicit operator __half() const { return __half(float(*this)); }
    __forceinline__ explicit operator __nv_bfloat16() const { return __nv_bfloat16(float(*this)); }
    __forceinline__ explicit operator bool() const { return __x & 0x7f; }
#define TILEDMM_FROM(type) \
    __forceinline__ explicit Fp8(type x) : Fp8(static_cast<float>(x)) {}
#define TILEDMM_TO(type) \
    __forceinline__ explicit operator type() const { return saturated<type>(__builtin_truncf(float(*this))); }
#define TILEDMM_BOTH(type) TILEDMM_FROM(type) TILEDMM_TO(type)
    TILEDMM_BOTH(short)
    TILEDMM_BOTH(unsigned short)
    TILEDMM_BOTH(int)
    TILEDMM_BOTH(unsigned)
    TILEDMM_BOTH(long)
    TILEDMM_BOTH(unsigned long)
    TILEDMM_BOTH(long long)
    TILEDMM_BOTH(unsigned long long)
    TILEDMM_TO(char)
    TILEDMM_TO(signed char)
    TILEDMM_TO(unsigned char)
#undef TILEDMM_BOTH
#undef TILEDMM_FROM
#undef TILEDMM_TO
};

template <__nv_fp8_interpretation_t KIND>
struct Fp8x2 {
    __nv_fp8x2_storage_t __x;

    Fp8x2() = default;
    __forceinline__ explicit Fp8x2(double2 x) : __x(__nv_cvt_double2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}
    __forceinline__ explicit Fp8x2(float2 x) : __x(__nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}
    __forceinline__ explicit Fp8x2(__half2 x) : __x(__nv_cvt_halfraw2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}
    __forceinline__ explicit Fp8x2(__nv_bfloat162 x) : __x(__nv_cvt_bfloat16raw2_to_fp8x2(x, __NV_SATFINITE, KIND)) {}
    __forceinline__ explicit operator float2() const {
        return {from_fp8(static_cast<unsigned char>(__x), KIND), from_fp8(static_cast<unsigned char>(__x >> 8), KIND)};
    }
    __forceinline__ explicit operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, KIND); }
};

template <__nv_fp8_interpretation_t KIND>
struct Fp8x4 {
    __nv_fp8x4_storage_t __x;

    Fp8x4() = default;
    __forceinline__ explicit Fp8x4(float4 x) : Fp8x4(Fp8x2<KIND>(float2{x.x, x.y}), Fp8x2<KIND>(float2{x.z, x.w})) {}
    __forceinline__ explicit Fp8x4(double4 x) : Fp8x4(Fp8x2<KIND>(double2{x.x, x.y}), Fp8x2<KIND>(double2{x.z, x.w})) {}
    __forceinline__ explicit Fp8x4(__half2 low, __half2 high) : Fp8x4(Fp8x2<KIND>(low), Fp8x2<KIND>(high)) {}
    __forceinline__ explicit Fp8x4(__nv_bfloat162 low, __nv_bfloat162 high) : Fp8x4(Fp8x2<KIND>(low), Fp8x2<KIND>(high)) {}
    __forceinline__ explicit operator float4() const {
        const auto at = [this](int i) { return from_fp8(static_cast<unsigned char>(__x >> 8 * i), KIND); };
        return {at(0), at(1), at(2), at(3)};
    }

private:
    __forceinline__ Fp8x4(Fp8x2<KIND> low, Fp8x2<KIND> high) : __x(static_cast<unsigned>(high.__x) << 16 | low.__x) {}
};

}   // namespace tiledmm_detail

using __nv_fp8_e4m3 = tiledmm_detail::Fp8<__NV_E4M3>;
using __nv_fp8x2_e4m3 = tiledmm_detail::Fp8x2<__NV_E4M3>;
using __nv_fp8x4_e4m3 = tiledmm_detail::Fp8x4<__NV_E4M3>;
using __nv_fp8_e5m2 = tiledmm_detail::Fp8<__NV_E5M2>;
using __nv_fp8x2_e5m2 = tiledmm_detail::Fp8x2<__NV_E5M2>;
using __nv_fp8x4_e5m2 = tiledmm_detail::Fp8x4<__NV_E5M2>;
