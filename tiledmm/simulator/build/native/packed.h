// Intrinsics on two 16-bit or four 8-bit integers in a 32-bit register (__vadd2, __vmaxu4), and on whole ones.
// Depends on: intrinsics.h
#pragma once

#include "intrinsics.h"

namespace tiledmm_detail {

// change(x, y) of each pair of elements of BITS bits, which it gets as int; the low bits of the results, packed.
template <int BITS, bool SIGNED, class Change>
__forceinline__ unsigned each(unsigned a, unsigned b, Change change) {
    constexpr unsigned ones = (1u << BITS) - 1;
    unsigned result = 0;
    for (int at = 0; at < 32; at += BITS) {
        const unsigned x = a >> at & ones, y = b >> at & ones;
        const int up = 32 - BITS;
        const int value = SIGNED ? change(static_cast<int>(x << up) >> up, static_cast<int>(y << up) >> up)
                                 : change(static_cast<int>(x), static_cast<int>(y));
        result |= (static_cast<unsigned>(value) & ones) << at;
    }
    return result;
}
template <int BITS, bool SIGNED>
__forceinline__ int clamped(int x) {
    constexpr int low = SIGNED ? -(1 << (BITS - 1)) : 0, high = SIGNED ? (1 << (BITS - 1)) - 1 : (1 << BITS) - 1;
    return x < low ? low : x > high ? high : x;
}
template <int BITS, bool SIGNED>
__forceinline__ unsigned sum_of_differences(unsigned a, unsigned b) {
    unsigned sum = 0;
    each<BITS, SIGNED>(a, b, [&sum](int x, int y) {
        sum += static_cast<unsigned>(x < y ? y - x : x - y);
        return 0;
    });
    return sum;
}

}   // namespace tiledmm_detail

#define TILEDMM_EACH(name, bits, is_signed, expression)                                                              \
    __forceinline__ unsigned name(unsigned a, unsigned b) {                                                         \
        return tiledmm_detail::each<bits, is_signed>(a, b, [](int x, int y) -> int { return expression; });         \
    }
#define TILEDMM_EACH_1(name, bits, expression)                                                                       \
    __forceinline__ unsigned name(unsigned a) {                                                                     \
        return tiledmm_detail::each<bits, true>(a, 0, [](int x, int) -> int { return expression; });                \
    }
#define TILEDMM_COMPARED(name, sign, n, bits, is_signed, operation)                          \
    TILEDMM_EACH(__vcmp##name##sign##n, bits, is_signed, x operation y ? -1 : 0)             \
    TILEDMM_EACH(__vset##name##sign##n, bits, is_signed, x operation y)
#define TILEDMM_WORDS(n, bits)                                                               \
    TILEDMM_EACH(__vadd##n, bits, true, x + y)                                               \
    TILEDMM_EACH(__vsub##n, bits, true, x - y)                                               \
    TILEDMM_EACH(__vaddss##n, bits, true, (tiledmm_detail::clamped<bits, true>(x + y)))      \
    TILEDMM_EACH(__vaddus##n, bits, false, (tiledmm_detail::clamped<bits, false>(x + y)))    \
    TILEDMM_EACH(__vsubss##n, bits, true, (tiledmm_detail::clamped<bits, true>(x - y)))      \
    TILEDMM_EACH(__vsubus##n, bits, false, (tiledmm_detail::clamped<bits, false>(x - y)))    \
    TILEDMM_EACH(__vavgs##n, bits, true, (x + y + (x + y >= 0)) >> 1)                        \
    TILEDMM_EACH(__vavgu##n, bits, false, (x + y + 1) >> 1)                                  \
    TILEDMM_EACH(__vhaddu##n, bits, false, (x + y) >> 1)                                     \
    TILEDMM_EACH(__vmins##n, bits, true, x < y ? x : y)                                      \
    TILEDMM_EACH(__vminu##n, bits, false, x < y ? x : y)                                     \
    TILEDMM_EACH(__vmaxs##n, bits, true, x > y ? x : y)                                      \
    TILEDMM_EACH(__vmaxu##n, bits, false, x > y ? x : y)                                     \
    TILEDMM_EACH(__vabsdiffs##n, bits, true, x < y ? y - x : x - y)                          \
    TILEDMM_EACH(__vabsdiffu##n, bits, false, x < y ? y - x : x - y)                         \
    TILEDMM_EACH_1(__vabs##n, bits, x < 0 ? -x : x)                                          \
    TILEDMM_EACH_1(__vabsss##n, bits, (tiledmm_detail::clamped<bits, true>(x < 0 ? -x : x))) \
    TILEDMM_EACH_1(__vneg##n, bits, -x)                                                      \
    TILEDMM_EACH_1(__vnegss##n, bits, (tiledmm_detail::clamped<bits, true>(-x)))             \
    TILEDMM_COMPARED(eq, , n, bits, true, ==)                                                \
    TILEDMM_COMPARED(ne, , n, bits, true, !=)                                                \
    TILEDMM_COMPARED(lt, s, n, bits, true, <)                                                \
    TILEDMM_COMPARED(lt, u, n, bits, false, <)                                               \
    TILEDMM_COMPARED(le, s, n, bits, true, <=)                                               \
    TILEDMM_COMPARED(le, u, n, bits, false, <=)                                              \
    TILEDMM_COMPARED(gt, s, n, bits, true, >)                                                \
    TILEDMM_COMPARED(gt, u, n, bits, false, >)                                               \
    TILEDMM_COMPARED(ge, s, n, bits, true, >=)                                               \
    TILEDMM_COMPARED(ge, u, n, bits, false, >=)                                              \
    __forceinline__ unsigned __vsads##n(unsigned a, unsigned b) { return tiledmm_detail::sum_of_differences<bits, true>(a, b); } \
    __forceinline__ unsigned __vsadu##n(unsigned a, unsigned b) { return tiledmm_detail::sum_of_differences<bits, false>(a, b); }
TILEDMM_WORDS(2, 16)
TILEDMM_WORDS(4, 8)
#undef TILEDMM_WORDS
#undef TILEDMM_COMPARED
#undef TILEDMM_EACH_1
#undef TILEDMM_EACH
