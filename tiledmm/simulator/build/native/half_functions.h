// A 16-bit floating-point type and all its functions: included once for each type, with these macros.
//   TILEDMM_ONE, TILEDMM_TWO       the type, and the vector of two
//   TILEDMM_RAW, TILEDMM_RAW2      their bits as structures
//   TILEDMM_NAME, TILEDMM_NAME2    what the names of conversions call them; TILEDMM_AS_NAME, of bits
//   TILEDMM_BITS                   tiledmm_detail::Float16Bits or Bfloat16Bits
// Depends on: halves.h

#include "halves.h"

#define TILEDMM_JOIN_(a, b, c) a##b##c
#define TILEDMM_JOIN(a, b, c) TILEDMM_JOIN_(a, b, c)

struct TILEDMM_RAW {
    unsigned short x;
};
struct __attribute__((aligned(4))) TILEDMM_RAW2 {
    unsigned short x, y;
};

struct __attribute__((aligned(2))) TILEDMM_ONE {
    unsigned short __x;

    TILEDMM_ONE() = default;
    constexpr TILEDMM_ONE(const TILEDMM_RAW& raw) : __x(raw.x) {}
    __forceinline__ TILEDMM_ONE(float x) : __x(tiledmm_detail::TILEDMM_BITS::nearest(x)) {}
    __forceinline__ TILEDMM_ONE(double x) : __x(tiledmm_detail::TILEDMM_BITS::nearest(x)) {}
#define TILEDMM_FROM(type) \
    __forceinline__ TILEDMM_ONE(type x) : __x(tiledmm_detail::TILEDMM_BITS::nearest(tiledmm_detail::exact_integer(x))) {}
    TILEDMM_FROM(short)
    TILEDMM_FROM(unsigned short)
    TILEDMM_FROM(int)
    TILEDMM_FROM(unsigned)
    TILEDMM_FROM(long)
    TILEDMM_FROM(unsigned long)
    TILEDMM_FROM(long long)
    TILEDMM_FROM(unsigned long long)
#undef TILEDMM_FROM
    __forceinline__ operator float() const { return static_cast<float>(tiledmm_detail::TILEDMM_BITS::value(__x)); }
    __forceinline__ operator TILEDMM_RAW() const { return {__x}; }
    __forceinline__ operator bool() const { return __x & 0x7fff; }
#define TILEDMM_TO(type) \
    __forceinline__ operator type() const { return tiledmm_detail::saturated<type>(__builtin_truncf(float(*this))); }
    TILEDMM_TO(signed char)
    TILEDMM_TO(unsigned char)
    TILEDMM_TO(char)
    TILEDMM_TO(short)
    TILEDMM_TO(unsigned short)
    TILEDMM_TO(int)
    TILEDMM_TO(unsigned)
    TILEDMM_TO(long)
    TILEDMM_TO(unsigned long)
    TILEDMM_TO(long long)
    TILEDMM_TO(unsigned long long)
#undef TILEDMM_TO
#define TILEDMM_ASSIGN(type)                        \
    __forceinline__ TILEDMM_ONE& operator=(type value) {    \
        return *this = TILEDMM_ONE(value);                  \
    }
    TILEDMM_ASSIGN(float)
    TILEDMM_ASSIGN(double)
    TILEDMM_ASSIGN(short)
    TILEDMM_ASSIGN(unsigned short)
    TILEDMM_ASSIGN(int)
    TILEDMM_ASSIGN(unsigned)
    TILEDMM_ASSIGN(long long)
    TILEDMM_ASSIGN(unsigned long long)
#undef TILEDMM_ASSIGN
    __forceinline__ TILEDMM_ONE& operator=(const TILEDMM_RAW& raw) {
        __x = raw.x;
        return *this;
    }
};
struct __attribute__((aligned(4))) TILEDMM_TWO {
    TILEDMM_ONE x, y;

    TILEDMM_TWO() = default;
    constexpr TILEDMM_TWO(const TILEDMM_ONE& low, const TILEDMM_ONE& high) : x(low), y(high) {}
    constexpr TILEDMM_TWO(const TILEDMM_RAW2& raw) : x(TILEDMM_RAW{raw.x}), y(TILEDMM_RAW{raw.y}) {}
    __forceinline__ operator TILEDMM_RAW2() const { return {x.__x, y.__x}; }
};

namespace tiledmm_detail {

__forceinline__ double value_of(TILEDMM_ONE x) { return TILEDMM_BITS::value(x.__x); }
template <>
struct Shuffled<TILEDMM_ONE> {
    using type = TILEDMM_ONE;
};
template <>
struct Shuffled<TILEDMM_TWO> {
    using type = TILEDMM_TWO;
};
// The type's number nearest to the exact result, and both of a vector.
template <class T>
struct Nearest;
template <>
struct Nearest<TILEDMM_ONE> {
    static __forceinline__ TILEDMM_ONE of(double x) { return TILEDMM_RAW{TILEDMM_BITS::nearest(x)}; }
};

}   // namespace tiledmm_detail

// ---- conversions ----

#define TILEDMM_ROUNDINGS(m) m(rn, RN) m(rz, RZ) m(ru, RU) m(rd, RD)
#define TILEDMM_FROM_INTEGER(name, type, suffix, R)                                                       \
    __forceinline__ TILEDMM_ONE TILEDMM_JOIN(__##name##2, TILEDMM_NAME, _##suffix)(type x) {                              \
        using namespace tiledmm_detail;                                                                   \
        return TILEDMM_RAW{bits_of<TILEDMM_BITS, R>(exact_integer(x))};                                                   \
    }
#define TILEDMM_TO_INTEGER(name, type, suffix, R)                                                         \
    __forceinline__ type TILEDMM_JOIN(__, TILEDMM_NAME, 2##name##_##suffix)(TILEDMM_ONE x) {                              \
        using namespace tiledmm_detail;                                                                   \
        return saturated<type>(whole<R>(static_cast<float>(value_of(x))));                                \
    }
#define TILEDMM_CONVERSIONS(suffix, R)                                                                    \
    __forceinline__ TILEDMM_ONE TILEDMM_JOIN(__float2, TILEDMM_NAME, _##suffix)(float x) {                                \
        using namespace tiledmm_detail;                                                                   \
        return TILEDMM_RAW{bits_of<TILEDMM_BITS, R>(x)};                                                                  \
    }                                                                                                     \
    TILEDMM_FROM_INTEGER(int, int, suffix, R)                                                             \
    TILEDMM_FROM_INTEGER(uint, unsigned, suffix, R)                                                       \
    TILEDMM_FROM_INTEGER(short, short, suffix, R)                                                         \
    TILEDMM_FROM_INTEGER(ushort, unsigned short, suffix, R)                                               \
    TILEDMM_FROM_INTEGER(ll, long long, suffix, R)                                                        \
    TILEDMM_FROM_INTEGER(ull, unsigned long long, suffix, R)                                              \
    TILEDMM_TO_INTEGER(int, int, suffix, R)                                                               \
    TILEDMM_TO_INTEGER(uint, unsigned, suffix, R)                                                         \
    TILEDMM_TO_INTEGER(short, short, suffix, R)                                                           \
    TILEDMM_TO_INTEGER(ushort, unsigned short, suffix, R)                                                 \
    TILEDMM_TO_INTEGER(ll, long long, suffix, R)                                                          \
    TILEDMM_TO_INTEGER(ull, unsigned long long, suffix, R)
TILEDMM_ROUNDINGS(TILEDMM_CONVERSIONS)
TILEDMM_TO_INTEGER(char, signed char, rz, RZ)
TILEDMM_TO_INTEGER(uchar, unsigned char, rz, RZ)
#undef TILEDMM_CONVERSIONS
#undef TILEDMM_TO_INTEGER
#undef TILEDMM_FROM_INTEGER
#undef TILEDMM_ROUNDINGS

__forceinline__ TILEDMM_ONE TILEDMM_JOIN(__float2, TILEDMM_NAME, )(float x) { return x; }
__forceinline__ TILEDMM_ONE TILEDMM_JOIN(__double2, TILEDMM_NAME, )(double x) { return x; }
__forceinline__ float TILEDMM_JOIN(__, TILEDMM_NAME, 2float)(TILEDMM_ONE x) { return x; }
__forceinline__ TILEDMM_TWO TILEDMM_JOIN(__float2, TILEDMM_NAME2, _rn)(float x) { return {x, x}; }
__forceinline__ TILEDMM_TWO TILEDMM_JOIN(__floats2, TILEDMM_NAME2, _rn)(float x, float y) { return {x, y}; }
__forceinline__ TILEDMM_TWO TILEDMM_JOIN(__float22, TILEDMM_NAME2, _rn)(float2 v) { return {v.x, v.y}; }
__forceinline__ float2 TILEDMM_JOIN(__, TILEDMM_NAME2, 2float2)(TILEDMM_TWO v) { return {v.x, v.y}; }
__forceinline__ TILEDMM_TWO TILEDMM_JOIN(__, TILEDMM_JOIN(TILEDMM_NAME, 2, TILEDMM_NAME2), )(TILEDMM_ONE x) { return {x, x}; }
__forceinline__ TILEDMM_TWO TILEDMM_JOIN(__halves2, TILEDMM_NAME2, )(TILEDMM_ONE x, TILEDMM_ONE y) { return {x, y}; }
__forceinline__ TILEDMM_TWO TILEDMM_JOIN(make_, TILEDMM_NAME2, )(TILEDMM_ONE x, TILEDMM_ONE y) { return {x, y}; }
__forceinline__ TILEDMM_ONE TILEDMM_JOIN(__low2, TILEDMM_NAME, )(TILEDMM_TWO v) { return v.x; }
__forceinline__ TILEDMM_ONE TILEDMM_JOIN(__high2, TILEDMM_NAME, )(TILEDMM_TWO v) { return v.y; }
__forceinline__ TILEDMM_TWO TILEDMM_JOIN(__low2, TILEDMM_NAME2, )(TILEDMM_TWO v) { return {v.x, v.x}; }
__forceinline__ TILEDMM_TWO TILEDMM_JOIN(__high2, TILEDMM_NAME2, )(TILEDMM_TWO v) { return {v.y, v.y}; }
__forceinline__ TILEDMM_TWO TILEDMM_JOIN(__lows2, TILEDMM_NAME2, )(TILEDMM_TWO v, TILEDMM_TWO w) { return {v.x, w.x}; }
__forceinline__ TILEDMM_TWO TILEDMM_JOIN(__highs2, TILEDMM_NAME2, )(TILEDMM_TWO v, TILEDMM_TWO w) { return {v.y, w.y}; }
__forceinline__ TILEDMM_TWO __lowhigh2highlow(TILEDMM_TWO v) { return {v.y, v.x}; }
__forceinline__ float __low2float(TILEDMM_TWO v) { return v.x; }
__forceinline__ float __high2float(TILEDMM_TWO v) { return v.y; }
__forceinline__ unsigned short TILEDMM_JOIN(__, TILEDMM_AS_NAME, _as_ushort)(TILEDMM_ONE x) { return x.__x; }
__forceinline__ short TILEDMM_JOIN(__, TILEDMM_AS_NAME, _as_short)(TILEDMM_ONE x) { return static_cast<short>(x.__x); }
__forceinline__ TILEDMM_ONE TILEDMM_JOIN(__ushort_as_, TILEDMM_AS_NAME, )(unsigned short bits) { return TILEDMM_RAW{bits}; }
__forceinline__ TILEDMM_ONE TILEDMM_JOIN(__short_as_, TILEDMM_AS_NAME, )(short bits) { return TILEDMM_RAW{static_cast<unsigned short>(bits)}; }

// ---- arithmetic: name(a, b) and name2 of both elements ----

#define TILEDMM_ARITHMETIC(name, name2, flops, expression)                                     \
    __forceinline__ TILEDMM_ONE name(TILEDMM_ONE a, TILEDMM_ONE b) {                                                   \
        using namespace tiledmm_detail;                                                        \
        TILEDMM_COUNT_FLOPS(flops);                                                            \
        const double x = value_of(a), y = value_of(b);                                         \
        return Nearest<TILEDMM_ONE>::of(expression);                                                   \
    }                                                                                          \
    __forceinline__ TILEDMM_TWO name2(TILEDMM_TWO a, TILEDMM_TWO b) { return {name(a.x, b.x), name(a.y, b.y)}; }
TILEDMM_ARITHMETIC(__hadd, __hadd2, 1, exact_sum(x, y))
TILEDMM_ARITHMETIC(__hsub, __hsub2, 1, exact_sum(x, -y))
TILEDMM_ARITHMETIC(__hmul, __hmul2, 1, x* y)
TILEDMM_ARITHMETIC(__hadd_rn, __hadd2_rn, 1, exact_sum(x, y))
TILEDMM_ARITHMETIC(__hsub_rn, __hsub2_rn, 1, exact_sum(x, -y))
TILEDMM_ARITHMETIC(__hmul_rn, __hmul2_rn, 1, x* y)
TILEDMM_ARITHMETIC(__hadd_sat, __hadd2_sat, 1, saturated_to_one(exact_sum(x, y)))
TILEDMM_ARITHMETIC(__hsub_sat, __hsub2_sat, 1, saturated_to_one(exact_sum(x, -y)))
TILEDMM_ARITHMETIC(__hmul_sat, __hmul2_sat, 1, saturated_to_one(x* y))
TILEDMM_ARITHMETIC(__hdiv, __h2div, 1, x / y)
TILEDMM_ARITHMETIC(__hmin, __hmin2, 0, extreme(x, y, 1, false))
TILEDMM_ARITHMETIC(__hmax, __hmax2, 0, extreme(x, y, -1, false))
TILEDMM_ARITHMETIC(__hmin_nan, __hmin2_nan, 0, extreme(x, y, 1, true))
TILEDMM_ARITHMETIC(__hmax_nan, __hmax2_nan, 0, extreme(x, y, -1, true))
#undef TILEDMM_ARITHMETIC
#define TILEDMM_FMA(name, name2, expression)                                                                        \
    __forceinline__ TILEDMM_ONE name(TILEDMM_ONE a, TILEDMM_ONE b, TILEDMM_ONE c) {                                                                 \
        using namespace tiledmm_detail;                                                                             \
        TILEDMM_COUNT_FLOPS(2);                                                                                     \
        const double sum = exact_fma(value_of(a), value_of(b), value_of(c));                                        \
        return Nearest<TILEDMM_ONE>::of(expression);                                                                        \
    }                                                                                                               \
    __forceinline__ TILEDMM_TWO name2(TILEDMM_TWO a, TILEDMM_TWO b, TILEDMM_TWO c) { return {name(a.x, b.x, c.x), name(a.y, b.y, c.y)}; }
TILEDMM_FMA(__hfma, __hfma2, sum)
TILEDMM_FMA(__hfma_sat, __hfma2_sat, saturated_to_one(sum))
TILEDMM_FMA(__hfma_relu, __hfma2_relu, not_negative(sum))
#undef TILEDMM_FMA
__forceinline__ TILEDMM_ONE __hneg(TILEDMM_ONE x) { return TILEDMM_RAW{static_cast<unsigned short>(x.__x ^ 0x8000)}; }
__forceinline__ TILEDMM_ONE __habs(TILEDMM_ONE x) { return TILEDMM_RAW{static_cast<unsigned short>(x.__x & 0x7fff)}; }
__forceinline__ TILEDMM_TWO __hneg2(TILEDMM_TWO v) { return {__hneg(v.x), __hneg(v.y)}; }
__forceinline__ TILEDMM_TWO __habs2(TILEDMM_TWO v) { return {__habs(v.x), __habs(v.y)}; }
__forceinline__ TILEDMM_TWO __hcmadd(TILEDMM_TWO a, TILEDMM_TWO b, TILEDMM_TWO c) {   // complex
    return {__hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};
}

// ---- comparisons: those with u are true where an operand is NaN ----

#define TILEDMM_COMPARISON(name, test)                                                                       \
    __forceinline__ bool __h##name(TILEDMM_ONE a, TILEDMM_ONE b) {                                                           \
        const double x = tiledmm_detail::value_of(a), y = tiledmm_detail::value_of(b);                       \
        return test;                                                                                         \
    }                                                                                                        \
    __forceinline__ TILEDMM_TWO __h##name##2(TILEDMM_TWO a, TILEDMM_TWO b) {                                                         \
        return {TILEDMM_ONE(__h##name(a.x, b.x) ? 1.0f : 0.0f), TILEDMM_ONE(__h##name(a.y, b.y) ? 1.0f : 0.0f)};             \
    }                                                                                                        \
    __forceinline__ unsigned __h##name##2_mask(TILEDMM_TWO a, TILEDMM_TWO b) {                                               \
        return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);              \
    }                                                                                                        \
    __forceinline__ bool __hb##name##2(TILEDMM_TWO a, TILEDMM_TWO b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }
TILEDMM_COMPARISON(eq, x == y)
TILEDMM_COMPARISON(ne, x < y || x > y)
TILEDMM_COMPARISON(lt, x < y)
TILEDMM_COMPARISON(le, x <= y)
TILEDMM_COMPARISON(gt, x > y)
TILEDMM_COMPARISON(ge, x >= y)
TILEDMM_COMPARISON(equ, !(x < y || x > y))
TILEDMM_COMPARISON(neu, !(x == y))
TILEDMM_COMPARISON(ltu, !(x >= y))
TILEDMM_COMPARISON(leu, !(x > y))
TILEDMM_COMPARISON(gtu, !(x <= y))
TILEDMM_COMPARISON(geu, !(x < y))
#undef TILEDMM_COMPARISON
__forceinline__ bool __hisnan(TILEDMM_ONE x) { return tiledmm_detail::value_of(x) != tiledmm_detail::value_of(x); }
__forceinline__ TILEDMM_TWO __hisnan2(TILEDMM_TWO v) { return {TILEDMM_ONE(__hisnan(v.x) ? 1.0f : 0.0f), TILEDMM_ONE(__hisnan(v.y) ? 1.0f : 0.0f)}; }
__forceinline__ int __hisinf(TILEDMM_ONE x) {
    return __builtin_isinf(tiledmm_detail::value_of(x)) ? (x.__x & 0x8000 ? -1 : 1) : 0;
}

// ---- functions ----

#define TILEDMM_FUNCTION(name, expression)                                               \
    __forceinline__ TILEDMM_ONE h##name(TILEDMM_ONE a) {                                                 \
        const double x = tiledmm_detail::value_of(a);                                    \
        return tiledmm_detail::Nearest<TILEDMM_ONE>::of(expression);                             \
    }                                                                                    \
    __forceinline__ TILEDMM_TWO h2##name(TILEDMM_TWO v) { return {h##name(v.x), h##name(v.y)}; }
TILEDMM_FUNCTION(sqrt, __builtin_sqrt(x))
TILEDMM_FUNCTION(rsqrt, 1 / __builtin_sqrt(x))
TILEDMM_FUNCTION(rcp, 1 / x)
TILEDMM_FUNCTION(exp, __builtin_exp(x))
TILEDMM_FUNCTION(exp2, __builtin_exp2(x))
TILEDMM_FUNCTION(exp10, ::exp10(x))
TILEDMM_FUNCTION(log, __builtin_log(x))
TILEDMM_FUNCTION(log2, __builtin_log2(x))
TILEDMM_FUNCTION(log10, __builtin_log10(x))
TILEDMM_FUNCTION(sin, __builtin_sin(x))
TILEDMM_FUNCTION(cos, __builtin_cos(x))
TILEDMM_FUNCTION(tanh, __builtin_tanh(x))
TILEDMM_FUNCTION(tanh_approx, __builtin_tanh(x))
TILEDMM_FUNCTION(floor, __builtin_floor(x))
TILEDMM_FUNCTION(ceil, __builtin_ceil(x))
TILEDMM_FUNCTION(rint, __builtin_rint(x))
TILEDMM_FUNCTION(trunc, __builtin_trunc(x))
#undef TILEDMM_FUNCTION

// ---- operators ----

#define TILEDMM_OPERATOR(T, sign, function)                                          \
    __forceinline__ T operator sign(const T& a, const T& b) { return function(a, b); } \
    __forceinline__ T& operator sign##=(T& a, const T& b) { return a = function(a, b); }
TILEDMM_OPERATOR(TILEDMM_ONE, +, __hadd)
TILEDMM_OPERATOR(TILEDMM_ONE, -, __hsub)
TILEDMM_OPERATOR(TILEDMM_ONE, *, __hmul)
TILEDMM_OPERATOR(TILEDMM_ONE, /, __hdiv)
TILEDMM_OPERATOR(TILEDMM_TWO, +, __hadd2)
TILEDMM_OPERATOR(TILEDMM_TWO, -, __hsub2)
TILEDMM_OPERATOR(TILEDMM_TWO, *, __hmul2)
TILEDMM_OPERATOR(TILEDMM_TWO, /, __h2div)
#undef TILEDMM_OPERATOR
#define TILEDMM_UNARY(T, one, negated)                                                     \
    __forceinline__ T operator+(const T& x) { return x; }                                  \
    __forceinline__ T operator-(const T& x) { return negated(x); }                         \
    __forceinline__ T& operator++(T& x) { return x = x + one; }                            \
    __forceinline__ T& operator--(T& x) { return x = x - one; }                            \
    __forceinline__ T operator++(T& x, int) {                                              \
        const T old = x;                                                                   \
        ++x;                                                                               \
        return old;                                                                        \
    }                                                                                      \
    __forceinline__ T operator--(T& x, int) {                                              \
        const T old = x;                                                                   \
        --x;                                                                               \
        return old;                                                                        \
    }
TILEDMM_UNARY(TILEDMM_ONE, TILEDMM_ONE(1.0f), __hneg)
TILEDMM_UNARY(TILEDMM_TWO, TILEDMM_TWO(TILEDMM_ONE(1.0f), TILEDMM_ONE(1.0f)), __hneg2)
#undef TILEDMM_UNARY
#define TILEDMM_COMPARED(sign, one, two)                                                   \
    __forceinline__ bool operator sign(const TILEDMM_ONE& a, const TILEDMM_ONE& b) { return one(a, b); }   \
    __forceinline__ bool operator sign(const TILEDMM_TWO& a, const TILEDMM_TWO& b) { return two(a, b); }
TILEDMM_COMPARED(==, __heq, __hbeq2)
TILEDMM_COMPARED(!=, __hneu, __hbneu2)
TILEDMM_COMPARED(<, __hlt, __hblt2)
TILEDMM_COMPARED(<=, __hle, __hble2)
TILEDMM_COMPARED(>, __hgt, __hbgt2)
TILEDMM_COMPARED(>=, __hge, __hbge2)
#undef TILEDMM_COMPARED

// ---- atomics ----

__forceinline__ TILEDMM_ONE atomicAdd(TILEDMM_ONE* at, TILEDMM_ONE value) {
    return tiledmm_detail::atomically(at, [value](TILEDMM_ONE old) -> TILEDMM_ONE {
        return tiledmm_detail::Nearest<TILEDMM_ONE>::of(tiledmm_detail::exact_sum(tiledmm_detail::value_of(old), tiledmm_detail::value_of(value)));
    });
}
__forceinline__ TILEDMM_TWO atomicAdd(TILEDMM_TWO* at, TILEDMM_TWO value) { return {atomicAdd(&at->x, value.x), atomicAdd(&at->y, value.y)}; }
__forceinline__ TILEDMM_ONE atomicAdd_block(TILEDMM_ONE* at, TILEDMM_ONE value) {
    tiledmm_detail::BlockScope scope;
    return atomicAdd(at, value);
}
__forceinline__ TILEDMM_TWO atomicAdd_block(TILEDMM_TWO* at, TILEDMM_TWO value) {
    tiledmm_detail::BlockScope scope;
    return atomicAdd(at, value);
}
__forceinline__ TILEDMM_ONE atomicAdd_system(TILEDMM_ONE* at, TILEDMM_ONE value) { return atomicAdd(at, value); }
__forceinline__ TILEDMM_TWO atomicAdd_system(TILEDMM_TWO* at, TILEDMM_TWO value) { return atomicAdd(at, value); }

#undef TILEDMM_JOIN
#undef TILEDMM_JOIN_
#undef TILEDMM_ONE
#undef TILEDMM_TWO
#undef TILEDMM_RAW
#undef TILEDMM_RAW2
#undef TILEDMM_NAME
#undef TILEDMM_NAME2
#undef TILEDMM_AS_NAME
#undef TILEDMM_BITS
