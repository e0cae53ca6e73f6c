// Conversions of floating-point numbers to integers: a GPU's saturate, and C++ leaves out of range undefined.
// Depends on: intrinsics.h
#pragma once

#include "intrinsics.h"

namespace tiledmm_detail {

template <class T>
constexpr T most = static_cast<T>(~0ull >> (T(-1) < T(0)) >> (64 - 8 * sizeof(T)));
template <class T>
constexpr T least = static_cast<T>(T(-1) < T(0) ? -most<T> - 1 : 0);

// The integer nearest to x, toward zero. NaN is 0, or only the highest bit where either has 64 bits (PTX ISA, cvt).
template <class T, class F>
__forceinline__ constexpr T saturated(F x) {
    if (x != x) return sizeof(F) == 8 || sizeof(T) == 8 ? static_cast<T>(1ull << (8 * sizeof(T) - 1)) : T(0);
    if (x >= static_cast<F>(most<T> / 2 + 1) * 2) return most<T>;
    if (x <= static_cast<F>(least<T>)) return least<T>;
    return static_cast<T>(x);
}

// As C's cast: through 32 bits to fewer. Other types are converted as they are.
template <class T>
struct IntegerOf {
    template <class V>
    static __forceinline__ constexpr T from(V v) {
        return (T)v;
    }
};
#define TILEDMM_INTEGER(T, Wide)                                                                              \
    template <>                                                                                               \
    struct IntegerOf<T> {                                                                                     \
        template <class V>                                                                                    \
        static __forceinline__ constexpr T from(V v) {                                                        \
            return (T)v;                                                                                      \
        }                                                                                                     \
        static __forceinline__ constexpr T from(float v) { return static_cast<T>(saturated<Wide>(v)); }       \
        static __forceinline__ constexpr T from(double v) { return static_cast<T>(saturated<Wide>(v)); }      \
    };
TILEDMM_INTEGER(char, int)
TILEDMM_INTEGER(signed char, int)
TILEDMM_INTEGER(unsigned char, unsigned)
TILEDMM_INTEGER(short, int)
TILEDMM_INTEGER(unsigned short, unsigned)
TILEDMM_INTEGER(int, int)
TILEDMM_INTEGER(unsigned, unsigned)
TILEDMM_INTEGER(long, long)
TILEDMM_INTEGER(unsigned long, unsigned long)
TILEDMM_INTEGER(long long, long long)
TILEDMM_INTEGER(unsigned long long, unsigned long long)
#undef TILEDMM_INTEGER

// (int)x in a kernel's text becomes (int)(tiledmm_detail::Cast<int>)x: casts.py.
template <class T>
struct Cast {
    T value;
    template <class V>
    __forceinline__ constexpr Cast(V v) : value(IntegerOf<T>::from(v)) {}
    __forceinline__ constexpr operator T() const { return value; }
};

}   // namespace tiledmm_detail
