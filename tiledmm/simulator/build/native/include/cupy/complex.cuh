// Complex numbers as CuPy's header has them: complex<float> and complex<double>, also in namespace thrust.
#pragma once

#include "functions.h"
#include "intrinsics.h"

namespace thrust {

template <class T>
struct __attribute__((aligned(2 * sizeof(T)))) complex {
    using value_type = T;

    complex() = default;
    __forceinline__ complex(T re) : x(re), y(0) {}
    __forceinline__ complex(T re, T im) : x(re), y(im) {}
    template <class U>
    __forceinline__ complex(const complex<U>& z) : x(static_cast<T>(z.real())), y(static_cast<T>(z.imag())) {}

    __forceinline__ T real() const { return x; }
    __forceinline__ T imag() const { return y; }
    __forceinline__ T real() const volatile { return x; }
    __forceinline__ T imag() const volatile { return y; }
    __forceinline__ void real(T re) { x = re; }
    __forceinline__ void imag(T im) { y = im; }

    __forceinline__ complex& operator=(T re) { return *this = complex(re); }
    template <class U>
    __forceinline__ complex& operator+=(const U& z) { return *this = complex(*this + z); }
    template <class U>
    __forceinline__ complex& operator-=(const U& z) { return *this = complex(*this - z); }
    template <class U>
    __forceinline__ complex& operator*=(const U& z) { return *this = complex(*this * z); }
    template <class U>
    __forceinline__ complex& operator/=(const U& z) { return *this = complex(*this / z); }

    T x, y;   // named as those of cuComplex.h
};

namespace detail {
template <class A, class B>
using Sum = decltype(A() + B());

template <class T>
struct IsNumber {
    static constexpr bool value = tiledmm_detail::KindOf<T>::value != tiledmm_detail::OTHER;
};
template <bool, class T>
struct If {};
template <class T>
struct If<true, T> {
    using type = T;
};
template <class A, class B>
using IfNumber = typename If<IsNumber<B>::value, complex<Sum<A, B>>>::type;

}   // namespace detail

// ---- arithmetic: with complex numbers and with real ones on either side ----

template <class A, class B>
__forceinline__ complex<detail::Sum<A, B>> operator+(const complex<A>& x, const complex<B>& y) {
    return {x.real() + y.real(), x.imag() + y.imag()};
}
template <class A, class B>
__forceinline__ complex<detail::Sum<A, B>> operator-(const complex<A>& x, const complex<B>& y) {
    return {x.real() - y.real(), x.imag() - y.imag()};
}
template <class A, class B>
__forceinline__ complex<detail::Sum<A, B>> operator*(const complex<A>& x, const complex<B>& y) {
    return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}
template <class A, class B>
__forceinline__ complex<detail::Sum<A, B>> operator/(const complex<A>& x, const complex<B>& y) {   // scaled: no square overflows
    using T = detail::Sum<A, B>;
    const T c = y.real(), d = y.imag(), size = (c < 0 ? -c : c) + (d < 0 ? -d : d);
    const T p = c / size, q = d / size, square = p * p + q * q, a = x.real() / size, b = x.imag() / size;
    return {(a * p + b * q) / square, (b * p - a * q) / square};
}
#define TILEDMM_WITH_REAL(op)                                                                        \
    template <class A, class B>                                                                      \
    __forceinline__ detail::IfNumber<A, B> operator op(const complex<A>& x, const B& y) {            \
        return x op complex<detail::Sum<A, B>>(y);                                                   \
    }                                                                                                \
    template <class A, class B>                                                                      \
    __forceinline__ detail::IfNumber<A, B> operator op(const B& x, const complex<A>& y) {            \
        return complex<detail::Sum<A, B>>(x) op y;                                                   \
    }
TILEDMM_WITH_REAL(+)
TILEDMM_WITH_REAL(-)
#undef TILEDMM_WITH_REAL
template <class A, class B>
__forceinline__ detail::IfNumber<A, B> operator*(const complex<A>& x, const B& y) { return {x.real() * y, x.imag() * y}; }
template <class A, class B>
__forceinline__ detail::IfNumber<A, B> operator*(const B& x, const complex<A>& y) { return {x * y.real(), x * y.imag()}; }
template <class A, class B>
__forceinline__ detail::IfNumber<A, B> operator/(const complex<A>& x, const B& y) { return {x.real() / y, x.imag() / y}; }
template <class A, class B>
__forceinline__ detail::IfNumber<A, B> operator/(const B& x, const complex<A>& y) {
    return complex<detail::Sum<A, B>>(x) / y;
}
template <class T>
__forceinline__ complex<T> operator+(const complex<T>& x) { return x; }
template <class T>
__forceinline__ complex<T> operator-(const complex<T>& x) { return {-x.real(), -x.imag()}; }

template <class A, class B>
__forceinline__ bool operator==(const complex<A>& x, const complex<B>& y) {
    return x.real() == y.real() && x.imag() == y.imag();
}
template <class A, class B>
__forceinline__ bool operator!=(const complex<A>& x, const complex<B>& y) { return !(x == y); }
template <class A, class B, class = detail::IfNumber<A, B>>
__forceinline__ bool operator==(const complex<A>& x, const B& y) { return x.real() == y && x.imag() == 0; }
template <class A, class B, class = detail::IfNumber<A, B>>
__forceinline__ bool operator!=(const complex<A>& x, const B& y) { return !(x == y); }
template <class A, class B, class = detail::IfNumber<A, B>>
__forceinline__ bool operator==(const B& x, const complex<A>& y) { return y == x; }
template <class A, class B, class = detail::IfNumber<A, B>>
__forceinline__ bool operator!=(const B& x, const complex<A>& y) { return !(y == x); }

// ---- functions ----

template <class T>
__forceinline__ T real(const complex<T>& z) { return z.real(); }
template <class T>
__forceinline__ T imag(const complex<T>& z) { return z.imag(); }
template <class T>
__forceinline__ T norm(const complex<T>& z) { return z.real() * z.real() + z.imag() * z.imag(); }
template <class T>
__forceinline__ complex<T> conj(const complex<T>& z) { return {z.real(), -z.imag()}; }
__forceinline__ float abs(const complex<float>& z) { return __builtin_hypotf(z.real(), z.imag()); }
__forceinline__ double abs(const complex<double>& z) { return __builtin_hypot(z.real(), z.imag()); }
__forceinline__ float arg(const complex<float>& z) { return __builtin_atan2f(z.imag(), z.real()); }
__forceinline__ double arg(const complex<double>& z) { return __builtin_atan2(z.imag(), z.real()); }
__forceinline__ complex<float> polar(float size, float angle = 0) {
    return {size * __builtin_cosf(angle), size * __builtin_sinf(angle)};
}
__forceinline__ complex<double> polar(double size, double angle = 0) {
    return {size * __builtin_cos(angle), size * __builtin_sin(angle)};
}

namespace detail {
template <class T>
struct Native;   // the C++ compiler's own complex numbers
template <>
struct Native<float> {
    using type = float _Complex;
};
template <>
struct Native<double> {
    using type = double _Complex;
};
template <class T>
__forceinline__ typename Native<T>::type native(const complex<T>& z) {
    typename Native<T>::type value;
    __real__ value = z.real();
    __imag__ value = z.imag();
    return value;
}
template <class T, class Value>
__forceinline__ complex<T> from_native(Value value) {
    return {static_cast<T>(__real__ value), static_cast<T>(__imag__ value)};
}
}   // namespace detail

#define TILEDMM_FUNCTION(name)                                                                                       \
    __forceinline__ complex<float> name(const complex<float>& z) {                                                   \
        return detail::from_native<float>(__builtin_c##name##f(detail::native(z)));                                  \
    }                                                                                                                \
    __forceinline__ complex<double> name(const complex<double>& z) {                                                 \
        return detail::from_native<double>(__builtin_c##name(detail::native(z)));                                    \
    }
TILEDMM_FUNCTION(acos)
TILEDMM_FUNCTION(acosh)
TILEDMM_FUNCTION(asin)
TILEDMM_FUNCTION(asinh)
TILEDMM_FUNCTION(atan)
TILEDMM_FUNCTION(atanh)
TILEDMM_FUNCTION(cos)
TILEDMM_FUNCTION(cosh)
TILEDMM_FUNCTION(exp)
TILEDMM_FUNCTION(log)
TILEDMM_FUNCTION(proj)
TILEDMM_FUNCTION(sin)
TILEDMM_FUNCTION(sinh)
TILEDMM_FUNCTION(sqrt)
TILEDMM_FUNCTION(tan)
TILEDMM_FUNCTION(tanh)
#undef TILEDMM_FUNCTION

template <class T>
__forceinline__ complex<T> log10(const complex<T>& z) { return log(z) / static_cast<T>(2.302585092994045684); }
__forceinline__ complex<float> pow(const complex<float>& x, const complex<float>& y) {
    return detail::from_native<float>(__builtin_cpowf(detail::native(x), detail::native(y)));
}
__forceinline__ complex<double> pow(const complex<double>& x, const complex<double>& y) {
    return detail::from_native<double>(__builtin_cpow(detail::native(x), detail::native(y)));
}
template <class T, class U, class = detail::IfNumber<T, U>>
__forceinline__ complex<T> pow(const complex<T>& x, const U& y) { return pow(x, complex<T>(static_cast<T>(y))); }
template <class T, class U, class = detail::IfNumber<T, U>>
__forceinline__ complex<T> pow(const U& x, const complex<T>& y) { return pow(complex<T>(static_cast<T>(x)), y); }

}   // namespace thrust

using thrust::abs; using thrust::acos; using thrust::acosh; using thrust::arg; using thrust::asin; using thrust::asinh;
using thrust::atan; using thrust::atanh; using thrust::complex; using thrust::conj; using thrust::cos; using thrust::cosh;
using thrust::exp; using thrust::imag; using thrust::log; using thrust::log10; using thrust::norm; using thrust::polar;
using thrust::pow; using thrust::proj; using thrust::real; using thrust::sin; using thrust::sinh; using thrust::sqrt;
using thrust::tan; using thrust::tanh;
