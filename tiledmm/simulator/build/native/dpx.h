// DPX: integer maxima and minima of sums and of three numbers (__viaddmax_s32, __vimax3_u16x2), whole or of two 16-bit halves.
// Depends on: intrinsics.h
#pragma once

#include "intrinsics.h"

namespace tiledmm_detail {

// Sums wrap to the element's bits.
__forceinline__ int wrapped_sum(int x, int y) { return static_cast<int>(static_cast<unsigned>(x) + static_cast<unsigned>(y)); }
__forceinline__ unsigned wrapped_sum(unsigned x, unsigned y) { return x + y; }
__forceinline__ short wrapped_sum(short x, short y) { return static_cast<short>(x + y); }
__forceinline__ unsigned short wrapped_sum(unsigned short x, unsigned short y) { return static_cast<unsigned short>(x + y); }

template <class T>
__forceinline__ T larger(T x, T y) { return x < y ? y : x; }
template <class T>
__forceinline__ T smaller(T x, T y) { return y < x ? y : x; }

// change(x, y, z) of both halves, which it gets as Half.
template <class Half, class Change>
__forceinline__ unsigned halves(unsigned x, unsigned y, unsigned z, Change change) {
    const auto low = change(static_cast<Half>(x), static_cast<Half>(y), static_cast<Half>(z));
    const auto high = change(static_cast<Half>(x >> 16), static_cast<Half>(y >> 16), static_cast<Half>(z >> 16));
    return static_cast<unsigned short>(low) | static_cast<unsigned>(static_cast<unsigned short>(high)) << 16;
}

}   // namespace tiledmm_detail

#define TILEDMM_DPX_3(name, type, half, suffix, expression)                                                         \
    __forceinline__ type name##32##suffix(type x, type y, type z) {                                                 \
        using namespace tiledmm_detail;                                                                             \
        return expression;                                                                                          \
    }                                                                                                               \
    __forceinline__ unsigned name##16x2##suffix(unsigned a, unsigned b, unsigned c) {                               \
        using namespace tiledmm_detail;                                                                             \
        return halves<half>(a, b, c, [](half x, half y, half z) { return expression; });                            \
    }
#define TILEDMM_DPX_2(name, type, half, suffix, expression)                                                         \
    __forceinline__ type name##32##suffix(type x, type y) {                                                         \
        using namespace tiledmm_detail;                                                                             \
        return expression;                                                                                          \
    }                                                                                                               \
    __forceinline__ unsigned name##16x2##suffix(unsigned a, unsigned b) {                                           \
        using namespace tiledmm_detail;                                                                             \
        return halves<half>(a, b, 0, [](half x, half y, half) { return expression; });                              \
    }
// The operand that is chosen, and whether it is the first.
#define TILEDMM_DPX_CHOICE(name, type, half, choice, order)                                                         \
    __forceinline__ type name##32(type x, type y, bool* first) {                                                    \
        *first = x order y;                                                                                         \
        return tiledmm_detail::choice(x, y);                                                                        \
    }                                                                                                               \
    __forceinline__ unsigned name##16x2(unsigned a, unsigned b, bool* first_high, bool* first_low) {                \
        *first_high = static_cast<half>(a >> 16) order static_cast<half>(b >> 16);                                  \
        *first_low = static_cast<half>(a) order static_cast<half>(b);                                               \
        return tiledmm_detail::halves<half>(a, b, 0, [](half x, half y, half) { return tiledmm_detail::choice(x, y); }); \
    }
#define TILEDMM_DPX(way, choice, order)                                                                             \
    TILEDMM_DPX_3(__viadd##way##_s, int, short, , choice(wrapped_sum(x, y), z))                                     \
    TILEDMM_DPX_3(__viadd##way##_u, unsigned, unsigned short, , choice(wrapped_sum(x, y), z))                       \
    TILEDMM_DPX_3(__viadd##way##_s, int, short, _relu, larger(choice(wrapped_sum(x, y), z), decltype(x)(0)))        \
    TILEDMM_DPX_3(__vi##way##3_s, int, short, , choice(choice(x, y), z))                                            \
    TILEDMM_DPX_3(__vi##way##3_u, unsigned, unsigned short, , choice(choice(x, y), z))                              \
    TILEDMM_DPX_3(__vi##way##3_s, int, short, _relu, larger(choice(choice(x, y), z), decltype(x)(0)))               \
    TILEDMM_DPX_2(__vi##way##_s, int, short, _relu, larger(choice(x, y), decltype(x)(0)))                           \
    TILEDMM_DPX_CHOICE(__vib##way##_s, int, short, choice, order)                                                   \
    TILEDMM_DPX_CHOICE(__vib##way##_u, unsigned, unsigned short, choice, order)
TILEDMM_DPX(max, larger, >=)
TILEDMM_DPX(min, smaller, <=)
#undef TILEDMM_DPX
#undef TILEDMM_DPX_CHOICE
#undef TILEDMM_DPX_2
#undef TILEDMM_DPX_3
