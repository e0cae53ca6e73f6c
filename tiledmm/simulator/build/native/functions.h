// CUDA's single- and double-precision functions: those of C, from the C library, and those that C does not have.
//
// Where the C library's float function is not within CUDA's error bound, the double one is rounded; likewise double and
// long double.
//
// Depends on: intrinsics.h
#pragma once

#include "intrinsics.h"

namespace tiledmm_detail {

// What C++'s overloads for integers return.
template <class T>
struct Promoted {};
#define TILEDMM_PROMOTED(T)    \
    template <>                \
    struct Promoted<T> {       \
        using type = double;   \
    };
TILEDMM_PROMOTED(bool)
TILEDMM_PROMOTED(char)
TILEDMM_PROMOTED(signed char)
TILEDMM_PROMOTED(unsigned char)
TILEDMM_PROMOTED(short)
TILEDMM_PROMOTED(unsigned short)
TILEDMM_PROMOTED(int)
TILEDMM_PROMOTED(unsigned)
TILEDMM_PROMOTED(long)
TILEDMM_PROMOTED(unsigned long)
TILEDMM_PROMOTED(long long)
TILEDMM_PROMOTED(unsigned long long)
#undef TILEDMM_PROMOTED
template <class T>
using Double = typename Promoted<T>::type;

// The type in which C++ computes a function of two arguments of different types.
template <class T, class U>
struct Wider {
    using type = double;
};
template <class T>
struct Wider<T, T> {};   // has an overload of its own, or is ambiguous as on a GPU

}   // namespace tiledmm_detail

// Functions of the C library that not every compiler has as built-ins.
extern "C" {
double tiledmm_exp10(double) __asm__("exp10");
long double tiledmm_exp10l(long double) __asm__("exp10l");
long double tiledmm_j0l(long double) __asm__("j0l");
long double tiledmm_j1l(long double) __asm__("j1l");
long double tiledmm_jnl(int, long double) __asm__("jnl");
long double tiledmm_y0l(long double) __asm__("y0l");
long double tiledmm_y1l(long double) __asm__("y1l");
long double tiledmm_ynl(int, long double) __asm__("ynl");
}

// ---- one argument: name(double), name(float), namef(float), name(integer) ----

#define TILEDMM_OVERLOADS(name, in_double, in_float)                            \
    __forceinline__ double name(double x) { return in_double; }                 \
    __forceinline__ float name##f(float x) { return in_float; }                 \
    __forceinline__ float name(float x) { return in_float; }                    \
    template <class T>                                                          \
    __forceinline__ tiledmm_detail::Double<T> name(T x) {                       \
        return name(static_cast<double>(x));                                    \
    }
#define TILEDMM_SAME(name) TILEDMM_OVERLOADS(name, __builtin_##name(x), __builtin_##name##f(x))
#define TILEDMM_WIDER(name) \
    TILEDMM_OVERLOADS(name, static_cast<double>(__builtin_##name##l(x)), static_cast<float>(__builtin_##name(x)))
#define TILEDMM_ROUNDED(name) TILEDMM_OVERLOADS(name, __builtin_##name(x), static_cast<float>(__builtin_##name(x)))
TILEDMM_SAME(sqrt)
TILEDMM_SAME(floor)
TILEDMM_SAME(ceil)
TILEDMM_SAME(trunc)
TILEDMM_SAME(round)
TILEDMM_SAME(rint)
TILEDMM_SAME(nearbyint)
TILEDMM_SAME(sin)
TILEDMM_SAME(cos)
TILEDMM_ROUNDED(tan)
TILEDMM_ROUNDED(asin)
TILEDMM_ROUNDED(acos)
TILEDMM_ROUNDED(atan)
TILEDMM_ROUNDED(sinh)
TILEDMM_WIDER(cosh)
TILEDMM_WIDER(tanh)
TILEDMM_ROUNDED(asinh)
TILEDMM_ROUNDED(acosh)
TILEDMM_ROUNDED(atanh)
TILEDMM_SAME(exp)
TILEDMM_SAME(exp2)
TILEDMM_OVERLOADS(exp10, static_cast<double>(tiledmm_exp10l(x)), static_cast<float>(tiledmm_exp10(x)))
TILEDMM_WIDER(expm1)
TILEDMM_SAME(log)
TILEDMM_SAME(log2)
TILEDMM_WIDER(log10)
TILEDMM_WIDER(log1p)
TILEDMM_SAME(logb)
TILEDMM_WIDER(cbrt)
TILEDMM_ROUNDED(erf)
TILEDMM_WIDER(erfc)
TILEDMM_WIDER(tgamma)
TILEDMM_WIDER(lgamma)
TILEDMM_OVERLOADS(rsqrt, static_cast<double>(1 / __builtin_sqrtl(x)), static_cast<float>(1 / __builtin_sqrt(x)))
TILEDMM_OVERLOADS(rcbrt, static_cast<double>(1 / __builtin_cbrtl(x)), static_cast<float>(1 / __builtin_cbrt(x)))

// CUDA has these without overloads.
#define TILEDMM_PAIR(name, in_double)                                                                          \
    __forceinline__ double name(double x) { return static_cast<double>(in_double); }                            \
    __forceinline__ float name##f(float x) { return static_cast<float>(in_double); }
TILEDMM_PAIR(j0, tiledmm_j0l(x))
TILEDMM_PAIR(j1, tiledmm_j1l(x))
TILEDMM_PAIR(y0, tiledmm_y0l(x))
TILEDMM_PAIR(y1, tiledmm_y1l(x))
__forceinline__ double jn(int n, double x) { return static_cast<double>(tiledmm_jnl(n, x)); }
__forceinline__ float jnf(int n, float x) { return static_cast<float>(tiledmm_jnl(n, x)); }
__forceinline__ double yn(int n, double x) { return static_cast<double>(tiledmm_ynl(n, x)); }
__forceinline__ float ynf(int n, float x) { return static_cast<float>(tiledmm_ynl(n, x)); }

// ---- two and three arguments ----

#define TILEDMM_OVERLOADS_2(name, in_double, in_float)                                        \
    __forceinline__ double name(double x, double y) { return in_double; }                     \
    __forceinline__ float name##f(float x, float y) { return in_float; }                      \
    __forceinline__ float name(float x, float y) { return in_float; }                         \
    template <class T, class U>                                                               \
    __forceinline__ typename tiledmm_detail::Wider<T, U>::type name(T x, U y) {               \
        return name(static_cast<double>(x), static_cast<double>(y));                          \
    }                                                                                         \
    template <class T>                                                                        \
    __forceinline__ tiledmm_detail::Double<T> name(T x, T y) {                                \
        return name(static_cast<double>(x), static_cast<double>(y));                          \
    }
#define TILEDMM_SAME_2(name) TILEDMM_OVERLOADS_2(name, __builtin_##name(x, y), __builtin_##name##f(x, y))
TILEDMM_SAME_2(pow)
TILEDMM_SAME_2(atan2)
TILEDMM_SAME_2(fmod)
TILEDMM_SAME_2(remainder)
TILEDMM_SAME_2(copysign)
TILEDMM_SAME_2(fdim)
TILEDMM_SAME_2(nextafter)
TILEDMM_SAME_2(hypot)
__forceinline__ float fmin(float x, float y) { return __builtin_fminf(x, y); }
__forceinline__ float fmax(float x, float y) { return __builtin_fmaxf(x, y); }
template <class T, class U>
__forceinline__ typename tiledmm_detail::Wider<T, U>::type fmin(T x, U y) {
    return __builtin_fmin(static_cast<double>(x), static_cast<double>(y));
}
template <class T, class U>
__forceinline__ typename tiledmm_detail::Wider<T, U>::type fmax(T x, U y) {
    return __builtin_fmax(static_cast<double>(x), static_cast<double>(y));
}
__forceinline__ float fma(float x, float y, float z) { return fmaf(x, y, z); }
__forceinline__ float fabs(float x) { return __builtin_fabsf(x); }
template <class T>
__forceinline__ tiledmm_detail::Double<T> fabs(T x) {
    return __builtin_fabs(static_cast<double>(x));
}
__forceinline__ double fdivide(double x, double y) { return x / y; }
__forceinline__ float fdividef(float x, float y) { return x / y; }

__forceinline__ double rhypot(double x, double y) { return static_cast<double>(1 / __builtin_hypotl(x, y)); }
__forceinline__ float rhypotf(float x, float y) { return static_cast<float>(1 / __builtin_hypot(x, y)); }
__forceinline__ double norm3d(double x, double y, double z) { return static_cast<double>(__builtin_hypotl(__builtin_hypotl(x, y), z)); }
__forceinline__ float norm3df(float x, float y, float z) { return static_cast<float>(__builtin_hypot(__builtin_hypot(x, y), z)); }
__forceinline__ double rnorm3d(double x, double y, double z) { return static_cast<double>(1 / __builtin_hypotl(__builtin_hypotl(x, y), z)); }
__forceinline__ float rnorm3df(float x, float y, float z) { return static_cast<float>(1 / __builtin_hypot(__builtin_hypot(x, y), z)); }
__forceinline__ double norm4d(double x, double y, double z, double w) {
    return static_cast<double>(__builtin_hypotl(__builtin_hypotl(x, y), __builtin_hypotl(z, w)));
}
__forceinline__ float norm4df(float x, float y, float z, float w) {
    return static_cast<float>(__builtin_hypot(__builtin_hypot(x, y), __builtin_hypot(z, w)));
}
__forceinline__ double rnorm4d(double x, double y, double z, double w) {
    return static_cast<double>(1 / __builtin_hypotl(__builtin_hypotl(x, y), __builtin_hypotl(z, w)));
}
__forceinline__ float rnorm4df(float x, float y, float z, float w) {
    return static_cast<float>(1 / __builtin_hypot(__builtin_hypot(x, y), __builtin_hypot(z, w)));
}
inline double norm(int count, const double* p) {
    long double all = 0;
    for (int i = 0; i < count; ++i) all = __builtin_hypotl(all, p[i]);
    return static_cast<double>(all);
}
inline float normf(int count, const float* p) {
    double all = 0;
    for (int i = 0; i < count; ++i) all = __builtin_hypot(all, p[i]);
    return static_cast<float>(all);
}
__forceinline__ double rnorm(int count, const double* p) { return 1 / norm(count, p); }
__forceinline__ float rnormf(int count, const float* p) { return 1 / normf(count, p); }

// ---- parts of a number ----

__forceinline__ double ldexp(double x, int e) { return __builtin_ldexp(x, e); }
__forceinline__ float ldexpf(float x, int e) { return __builtin_ldexpf(x, e); }
__forceinline__ float ldexp(float x, int e) { return __builtin_ldexpf(x, e); }
__forceinline__ double scalbn(double x, int e) { return __builtin_scalbn(x, e); }
__forceinline__ float scalbnf(float x, int e) { return __builtin_scalbnf(x, e); }
__forceinline__ float scalbn(float x, int e) { return __builtin_scalbnf(x, e); }
__forceinline__ double scalbln(double x, long e) { return __builtin_scalbln(x, e); }
__forceinline__ float scalblnf(float x, long e) { return __builtin_scalblnf(x, e); }
__forceinline__ float scalbln(float x, long e) { return __builtin_scalblnf(x, e); }
__forceinline__ double frexp(double x, int* e) { return __builtin_frexp(x, e); }
__forceinline__ float frexpf(float x, int* e) { return __builtin_frexpf(x, e); }
__forceinline__ float frexp(float x, int* e) { return __builtin_frexpf(x, e); }
__forceinline__ double modf(double x, double* whole) { return __builtin_modf(x, whole); }
__forceinline__ float modff(float x, float* whole) { return __builtin_modff(x, whole); }
__forceinline__ float modf(float x, float* whole) { return __builtin_modff(x, whole); }
__forceinline__ double remquo(double x, double y, int* q) { return __builtin_remquo(x, y, q); }
__forceinline__ float remquof(float x, float y, int* q) { return __builtin_remquof(x, y, q); }
__forceinline__ float remquo(float x, float y, int* q) { return __builtin_remquof(x, y, q); }
__forceinline__ int ilogb(double x) {
    return x != x || x == 0 ? -__INT_MAX__ - 1 : __builtin_isinf(x) ? __INT_MAX__ : __builtin_ilogb(x);
}
__forceinline__ int ilogbf(float x) { return ilogb(static_cast<double>(x)); }
__forceinline__ int ilogb(float x) { return ilogb(static_cast<double>(x)); }
__forceinline__ double nan(const char*) { return __builtin_nan(""); }
__forceinline__ float nanf(const char*) { return __builtin_nanf(""); }
#define TILEDMM_PREDICATE(name, expression)                                    \
    __forceinline__ bool name(float x) { return expression; }                  \
    __forceinline__ bool name(double x) { return expression; }                 \
    template <class T>                                                         \
    __forceinline__ bool name(T whole) {                                       \
        return name(static_cast<tiledmm_detail::Double<T>>(whole));            \
    }
TILEDMM_PREDICATE(isnan, x != x)
TILEDMM_PREDICATE(isinf, __builtin_isinf(x))
TILEDMM_PREDICATE(isfinite, __builtin_isfinite(x))
TILEDMM_PREDICATE(isnormal, __builtin_isnormal(x))
TILEDMM_PREDICATE(signbit, __builtin_signbit(x) != 0)

// ---- pairs, and multiples of pi ----

__forceinline__ void sincos(double x, double* s, double* c) { *s = __builtin_sin(x), *c = __builtin_cos(x); }
__forceinline__ void sincosf(float x, float* s, float* c) { *s = __builtin_sinf(x), *c = __builtin_cosf(x); }
__forceinline__ void sincos(float x, float* s, float* c) { sincosf(x, s, c); }

namespace tiledmm_detail {

// sin(pi x) and cos(pi x). The reduction to |rest| <= 1/4 is exact.
inline void sincos_of_pi(double x, long double& s, long double& c) {
    if (!__builtin_isfinite(x)) {
        s = c = __builtin_nanl("");
        return;
    }
    const double turn = __builtin_fmod(x, 2.0), quarters = __builtin_rint(2 * turn), rest = turn - quarters / 2;
    const long double angle = rest * 3.14159265358979323846264338327950288L;
    const long double sine = __builtin_sinl(angle), cosine = __builtin_cosl(angle);
    switch (static_cast<int>(quarters) & 3) {
    case 0: s = sine, c = cosine; break;
    case 1: s = cosine, c = -sine; break;
    case 2: s = -sine, c = -cosine; break;
    default: s = -cosine, c = sine;
    }
    if (s == 0) s = __builtin_copysign(0.0, x);   // C23: sinpi(n) has the sign of n, cospi(n + 1/2) is +0
    if (c == 0) c = 0;
}

}   // namespace tiledmm_detail

__forceinline__ void sincospi(double x, double* s, double* c) {
    long double sine, cosine;
    tiledmm_detail::sincos_of_pi(x, sine, cosine);
    *s = static_cast<double>(sine), *c = static_cast<double>(cosine);
}
__forceinline__ void sincospif(float x, float* s, float* c) {
    double sine, cosine;
    sincospi(x, &sine, &cosine);
    *s = static_cast<float>(sine), *c = static_cast<float>(cosine);
}
__forceinline__ double sinpi(double x) {
    double s, c;
    sincospi(x, &s, &c);
    return s;
}
__forceinline__ double cospi(double x) {
    double s, c;
    sincospi(x, &s, &c);
    return c;
}
__forceinline__ float sinpif(float x) { return static_cast<float>(sinpi(x)); }
__forceinline__ float cospif(float x) { return static_cast<float>(cospi(x)); }

// ---- the normal distribution, and Bessel functions of imaginary arguments ----

namespace tiledmm_detail {

constexpr long double ROOT_HALF = 0.707106781186547524400844362104849039L, ROOT_PI = 1.77245385090551602729816748334114518L;

inline long double scaled_erfc(long double x) {   // exp(x^2) erfc(x)
    if (x < 10) return __builtin_expl(x * x) * __builtin_erfcl(x);
    long double fraction = x;
    for (int i = 60; i; --i) fraction = x + i / (2 * fraction);   // a continued fraction
    return 1 / (fraction * ROOT_PI);
}

// The x whose erfc is q, for q from 0 to 1.
inline long double inverse_erfc(long double q) {
    if (!(q > 0)) return q == 0 ? __builtin_infl() : static_cast<long double>(__builtin_nanl(""));
    const long double t = __builtin_sqrtl(-2 * __builtin_logl(q / 2));
    long double x = ROOT_HALF * (t - (2.30753L + 0.27061L * t) / (1 + (0.99229L + 0.04481L * t) * t));
    for (int i = 0; i < 4; ++i) {   // Halley's method, where both sides are multiplied by exp(x^2)
        const long double step = (scaled_erfc(x) - q * __builtin_expl(x * x)) * ROOT_PI / 2;
        x += step / (1 + x * step);
    }
    return x;
}

// The x whose erf is p: near 0, 1 - p would lose p's last bits.
inline long double inverse_erf(long double p) {
    const long double size = __builtin_fabsl(p);
    if (!(size <= 1)) return __builtin_nanl("");
    if (size > 0.5L) return __builtin_copysignl(inverse_erfc(1 - size), p);
    long double x = p * ROOT_PI / 2;
    for (int i = 0; i < 6; ++i) {
        const long double step = (p - __builtin_erfl(x)) * ROOT_PI / 2 * __builtin_expl(x * x);
        x += step / (1 + x * step);
    }
    return x;
}

inline long double inverse_erfc_of_any(long double q) {
    if (q > 1.5L) return -inverse_erfc(2 - q);
    return q < 0.5L ? inverse_erfc(q) : inverse_erf(1 - q);
}

inline long double modified_bessel(int order, long double x) {   // a series of positive terms
    if (x != x) return x;
    if (__builtin_fabsl(x) > 720) return order && x < 0 ? -__builtin_infl() : __builtin_infl();
    const long double square = x * x / 4;
    long double term = order ? x / 2 : 1, sum = term;
    for (int k = 1; __builtin_fabsl(term) > __builtin_fabsl(sum) * 0x1p-70L; ++k) sum += term *= square / (static_cast<long double>(k) * (k + order));
    return sum;
}

}   // namespace tiledmm_detail

TILEDMM_PAIR(normcdf, __builtin_erfcl(-x * tiledmm_detail::ROOT_HALF) / 2)
TILEDMM_PAIR(normcdfinv, -tiledmm_detail::inverse_erfc_of_any(2 * static_cast<long double>(x)) / tiledmm_detail::ROOT_HALF)
TILEDMM_PAIR(erfinv, tiledmm_detail::inverse_erf(x))
TILEDMM_PAIR(erfcinv, tiledmm_detail::inverse_erfc_of_any(x))
TILEDMM_PAIR(erfcx, tiledmm_detail::scaled_erfc(x))
TILEDMM_PAIR(cyl_bessel_i0, tiledmm_detail::modified_bessel(0, x))
TILEDMM_PAIR(cyl_bessel_i1, tiledmm_detail::modified_bessel(1, x))
#undef TILEDMM_OVERLOADS
#undef TILEDMM_OVERLOADS_2
#undef TILEDMM_SAME
#undef TILEDMM_SAME_2
#undef TILEDMM_WIDER
#undef TILEDMM_ROUNDED
#undef TILEDMM_PAIR
#undef TILEDMM_PREDICATE

// ---- the fast functions, computed here as the accurate ones: a GPU's differ in the last bits ----

namespace tiledmm_detail {

// A warning where the argument is outside of the range for which the CUDA C++ Programming Guide states an error.
__forceinline__ float in_range(float x, bool inside, unsigned function) {
#if TILEDMM_INSTRUMENTED
    if (!inside) tiledmm_beyond_range(function, static_cast<double>(x));
#endif
    return x;
}
__forceinline__ float angle(float x, unsigned function) {   // from -pi to pi; infinities and NaN give NaN either way
    return in_range(x, !(__builtin_fabsf(x) > 3.1415928f) || !__builtin_isfinite(x), function);
}

}   // namespace tiledmm_detail

__forceinline__ float __sinf(float x) { return __builtin_sinf(tiledmm_detail::angle(x, 1)); }
__forceinline__ float __cosf(float x) { return __builtin_cosf(tiledmm_detail::angle(x, 2)); }
__forceinline__ float __tanf(float x) { return tanf(tiledmm_detail::angle(x, 3)); }
__forceinline__ float __tanhf(float x) { return tanhf(x); }
__forceinline__ void __sincosf(float x, float* s, float* c) { sincosf(tiledmm_detail::angle(x, 4), s, c); }
__forceinline__ float __expf(float x) { return __builtin_expf(x); }
__forceinline__ float __exp10f(float x) { return exp10f(x); }
__forceinline__ float __logf(float x) { return __builtin_logf(x); }
__forceinline__ float __log2f(float x) { return __builtin_log2f(x); }
__forceinline__ float __log10f(float x) { return log10f(x); }
__forceinline__ float __powf(float x, float y) {   // exp2(y log2(x)): NaN for a negative x, 0^0, 1^inf and inf^0
    const float power = __builtin_powf(x, y);
    const bool none = x < 0 || (y == 0 && (x == 0 || __builtin_isinf(x))) || (x == 1 && __builtin_isinf(y));
    if (!none || power != power) return power;
    tiledmm_detail::in_range(x, false, 5);
    return __builtin_nanf("");
}
__forceinline__ float __fdividef(float x, float y) {   // 0 for y from 2^126 to 2^128, where a GPU's reciprocal is 0
    if (!(__builtin_fabsf(y) > 0x1p126f && __builtin_isfinite(y))) return x / y;
    tiledmm_detail::in_range(y, false, 6);
    return x * (y < 0 ? -0.0f : 0.0f);
}
__forceinline__ float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }   // 0 for NaN
