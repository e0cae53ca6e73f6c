// PTX instructions for the CPU, one function for each family: tiledmm/simulator/build/translation/ptx writes calls of them for inline PTX.
//
// Registers are unsigned integers, float and double, by their size; as<T> reads one as an instruction's type, put writes one.
// Memory is accessed through one scalar as wide as the instruction's access, so that the checks see it whole.
//
// Depends on: cuda.h, intrinsics.h, ptx.h, runtime.h, tensor_cores.h, warps.h
#pragma once

#include "cuda.h"
#include "intrinsics.h"
#include "ptx.h"
#include "runtime.h"
#include "tensor_cores.h"
#include "warps.h"

namespace tiledmm_ptx {

using namespace tiledmm_package;
using tiledmm_detail::Bits;
using tiledmm_detail::bits_as;
using tiledmm_detail::Unsigned;
using tiledmm_detail::rounded;

// ---- types ----

struct Half {
    unsigned short bits;
};
struct Bfloat {
    unsigned short bits;
};
template <class T>
struct Pair {   // .f16x2 and .bf16x2
    T low, high;
};
struct Sink {};   // the destination _

enum Kind { INTEGER, FLOAT, NARROW, PAIR };
template <class T>
constexpr Kind KIND = INTEGER;
template <>
constexpr Kind KIND<float> = FLOAT;
template <>
constexpr Kind KIND<double> = FLOAT;
template <>
constexpr Kind KIND<Half> = NARROW;
template <>
constexpr Kind KIND<Bfloat> = NARROW;
template <class T>
constexpr Kind KIND<Pair<T>> = PAIR;

template <class T, class U>
constexpr bool SAME = false;
template <class T>
constexpr bool SAME<T, T> = true;

template <class T>
struct Plain {
    using Type = T;
};
template <class T>
struct Plain<volatile T> {
    using Type = T;
};

template <class T>
constexpr bool IS_SIGNED = static_cast<T>(-1) < static_cast<T>(0);

template <class T>
struct Wider;
template <>
struct Wider<short> {
    using Type = int;
};
template <>
struct Wider<unsigned short> {
    using Type = unsigned;
};
template <>
struct Wider<int> {
    using Type = long long;
};
template <>
struct Wider<unsigned> {
    using Type = unsigned long long;
};

// ---- operands ----

// An operand of the statement as a register: integers and pointers are extended or cut off, all else keeps its bits.
template <class Register, class T>
__forceinline__ Register input(T operand) {
    if constexpr (__is_class(T) || (sizeof(T) == sizeof(Register) && KIND<T> != KIND<Register>))
        return bits_as<Register>(operand);
    else
        return (Register)operand;
}
template <class T, class Register>
__forceinline__ void output(T& operand, Register value) {
    if constexpr (sizeof(T) == sizeof(Register))
        operand = bits_as<typename Plain<T>::Type>(value);
    else
        operand = static_cast<T>(value);
}

template <class T, class Register>
__forceinline__ T as(Register value) {
    if constexpr (SAME<T, Register>)
        return value;
    else if constexpr (KIND<T> == INTEGER && KIND<Register> == INTEGER)
        return static_cast<T>(value);
    else if constexpr (sizeof(T) == sizeof(Register))
        return bits_as<T>(value);
    else if constexpr (KIND<T> == FLOAT && KIND<Register> == FLOAT)   // a decimal constant
        return static_cast<T>(value);
    else
        return bits_as<T>(static_cast<Bits<T>>(bits_as<Bits<Register>>(value)));
}
template <class Register, class T>
__forceinline__ void put(Register& to, T value) {
    if constexpr (KIND<T> == INTEGER && KIND<Register> == INTEGER)
        to = static_cast<Register>(value);
    else if constexpr (sizeof(T) == sizeof(Register))
        to = bits_as<Register>(value);
    else
        to = bits_as<Register>(static_cast<Bits<Register>>(bits_as<Bits<T>>(value)));
}

template <class T>
__forceinline__ void put(Sink, T) {}

// ---- memory ----

template <class Register>
__forceinline__ void* shared(Register address) {
    return tiledmm_shared_address(static_cast<unsigned>(address));
}
template <class Register>
__forceinline__ void* global(Register address) {
    return reinterpret_cast<void*>(static_cast<unsigned long>(address));
}

// The compiler neither merges nor moves accesses of several statements.
__forceinline__ void compiler_fence() { __asm__ volatile("" : : : "memory"); }

// VOLATILE: also .relaxed, .acquire and .release, which may run beside accesses of other threads.
template <bool VOLATILE, class T, int COUNT>
__forceinline__ void load(T (&values)[COUNT], const void* from) {
    using Access = typename Unsigned<sizeof(T) * COUNT>::Type;
    Access bits;
    if constexpr (VOLATILE)
        bits = *static_cast<const volatile Access*>(from);
    else
        bits = *static_cast<const Access*>(from);
    compiler_fence();
    __builtin_memcpy(values, &bits, sizeof bits);
}
template <bool VOLATILE, class T, int COUNT>
__forceinline__ void store(void* to, const T (&values)[COUNT]) {
    using Access = typename Unsigned<sizeof(T) * COUNT>::Type;
    Access bits;
    __builtin_memcpy(&bits, values, sizeof bits);
    if constexpr (VOLATILE)
        *static_cast<volatile Access*>(to) = bits;
    else
        *static_cast<Access*>(to) = bits;
    compiler_fence();
}

__forceinline__ void copy_async(void* shared, const void* global, unsigned bytes, unsigned source_bytes) {
    tiledmm_copy_async(shared, global, bytes, source_bytes);
}
__forceinline__ void wait_group(unsigned pending) { tiledmm_wait_for_copies(pending); }
__forceinline__ void wait_all() { tiledmm_wait_for_all_copies(); }

// ---- floating point ----

enum Rounding { TO_NEAREST, TO_ZERO, DOWN, UP };

__forceinline__ float canonical(float x) { return x == x ? x : __uint_as_float(0x7fffffffu); }
__forceinline__ double canonical(double x) { return x; }

__forceinline__ double widened(float x) { return x; }
__forceinline__ double widened(double x) { return x; }
__forceinline__ double widened(Half x) { return half_to_float(x.bits); }
__forceinline__ double widened(Bfloat x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }

// The neighbour of x toward -infinity or +infinity.
template <class T>
__forceinline__ T neighbour(T x, bool up) {
    constexpr Bits<T> SIGN = static_cast<Bits<T>>(static_cast<Bits<T>>(1) << (8 * sizeof(T) - 1));
    Bits<T> bits = bits_as<Bits<T>>(x);
    if (!(bits & static_cast<Bits<T>>(~SIGN)))
        bits = up ? 1 : SIGN | 1;
    else
        bits = static_cast<Bits<T>>(((bits & SIGN) != 0) == up ? bits - 1 : bits + 1);
    return bits_as<T>(bits);
}

// x + y rounded to odd, which a rounding to fewer bits after it does not notice.
__forceinline__ double odd_sum(double x, double y) {
    x = rounded(x), y = rounded(y);
    const double sum = rounded(x + y);
    if (!(__builtin_fabs(sum) < __builtin_inf())) return sum;
    const double y_part = rounded(sum - x), x_part = rounded(sum - y_part);
    const double rest = rounded(rounded(x - x_part) + rounded(y - y_part));
    if (rest != 0 && !(__double_as_longlong(sum) & 1)) return neighbour(sum, rest > 0);
    return sum;
}

template <class T>
__forceinline__ T nearest(double x) {
    if constexpr (SAME<T, double>) {
        return x;
    } else if constexpr (SAME<T, float>) {
        return canonical(static_cast<float>(x));
    } else if constexpr (SAME<T, Half>) {
        return {double_to_half(x)};
    } else {
        float near = static_cast<float>(x);   // rounded to odd
        if (x == x && __builtin_fabsf(near) < __builtin_inff() && near != x && !(__float_as_uint(near) & 1))
            near = neighbour(near, near < x);
        return {float_to_bfloat(near)};
    }
}
template <class T, Rounding TO = TO_NEAREST>
__forceinline__ T narrowed(double x) {
    const T near = nearest<T>(x);
    const double back = widened(near);
    if (TO == TO_NEAREST || !(back != x) || x != x) return near;
    const bool wanted_up = TO == UP || (TO == TO_ZERO && x < 0);
    if (__builtin_fabs(x) == __builtin_inf() || (back > x) == wanted_up) return near;
    return neighbour(near, wanted_up);
}

__forceinline__ float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
template <class T>
__forceinline__ T saturated(T x) {   // to [0, 1]; NaN becomes 0
    if constexpr (KIND<T> == PAIR) {
        return {saturated(x.low), saturated(x.high)};
    } else {
        const double value = widened(x);
        return value > 0 ? value < 1 ? x : nearest<T>(1) : nearest<T>(0);
    }
}

// ---- arithmetic ----

// A function of elements, for pairs of them as well.
#define TILEDMM_ARITHMETIC(name, operations, integer, wide, narrow)                                                    \
    template <class T, Rounding TO = TO_NEAREST>                                                                       \
    __forceinline__ T name(T x, T y) {                                                                                 \
        if constexpr (KIND<T> == INTEGER) {                                                                            \
            const auto a = static_cast<unsigned long long>(x), b = static_cast<unsigned long long>(y);                 \
            return static_cast<T>(integer);                                                                            \
        } else if constexpr (KIND<T> == PAIR) {                                                                        \
            return {name(x.low, y.low), name(x.high, y.high)};                                                         \
        } else if constexpr (KIND<T> == FLOAT && TO == TO_NEAREST) {                                                   \
            TILEDMM_COUNT_FLOPS(operations);                                                                           \
            return canonical(rounded(wide));                                                                           \
        } else {                                                                                                       \
            TILEDMM_COUNT_FLOPS(operations);                                                                           \
            const double a = widened(x), b = widened(y);                                                               \
            return narrowed<T, TO>(narrow);                                                                            \
        }                                                                                                              \
    }
TILEDMM_ARITHMETIC(add, 1, a + b, x + y, odd_sum(a, b))
TILEDMM_ARITHMETIC(sub, 1, a - b, x - y, odd_sum(a, -b))
TILEDMM_ARITHMETIC(mul, 1, a* b, x* y, a* b)
#undef TILEDMM_ARITHMETIC

template <class T, Rounding TO = TO_NEAREST>
__forceinline__ T fma(T x, T y, T z) {
    if constexpr (KIND<T> == PAIR) {
        return {fma(x.low, y.low, z.low), fma(x.high, y.high, z.high)};
    } else {
        TILEDMM_COUNT_FLOPS(2);
        if constexpr (SAME<T, double>)
            return rounded(__builtin_fma(x, y, z));
        else if constexpr (SAME<T, float> && TO == TO_NEAREST)
            return canonical(__builtin_fmaf(x, y, z));
        else
            return narrowed<T, TO>(odd_sum(widened(x) * widened(y), widened(z)));
    }
}

template <class T>
__forceinline__ T mul_lo(T x, T y) {
    return mul(x, y);
}
template <class T>
__forceinline__ T mul_hi(T x, T y) {
    if constexpr (IS_SIGNED<T>)
        return static_cast<T>(static_cast<__int128>(x) * y >> (8 * sizeof(T)));
    else
        return static_cast<T>(static_cast<unsigned __int128>(x) * y >> (8 * sizeof(T)));
}
template <class T>
__forceinline__ auto mul_wide(T x, T y) {
    using Wide = typename Wider<T>::Type;
    return static_cast<Wide>(static_cast<Wide>(x) * static_cast<Wide>(y));
}
template <class T>
__forceinline__ T mad_lo(T x, T y, T z) {
    return add(mul(x, y), z);
}
template <class T>
__forceinline__ T mad_hi(T x, T y, T z) {
    return add(mul_hi(x, y), z);
}
template <class T, class Wide>
__forceinline__ Wide mad_wide(T x, T y, Wide z) {
    return add<Wide>(mul_wide(x, y), z);
}

// x + y + carry and x - y - carry: `carry` is the carry or borrow, in and out.
#define TILEDMM_CARRYING(name, overflows)                                                                               \
    template <class T>                                                                                                 \
    __forceinline__ T name(T x, T y, bool& carry) {                                                                    \
        Bits<T> partial, whole;                                                                                        \
        const bool first = overflows(static_cast<Bits<T>>(x), static_cast<Bits<T>>(y), &partial);                      \
        const bool second = overflows(partial, static_cast<Bits<T>>(carry), &whole);                                   \
        carry = first || second;                                                                                       \
        return static_cast<T>(whole);                                                                                  \
    }
TILEDMM_CARRYING(add_carrying, __builtin_add_overflow)
TILEDMM_CARRYING(sub_carrying, __builtin_sub_overflow)
#undef TILEDMM_CARRYING

template <class T>
__forceinline__ T neg(T x) {
    if constexpr (KIND<T> == INTEGER)
        return static_cast<T>(0ull - static_cast<unsigned long long>(x));
    else if constexpr (KIND<T> == PAIR)
        return {neg(x.low), neg(x.high)};
    else
        return narrowed<T>(-widened(x));
}
template <class T>
__forceinline__ T abs(T x) {
    if constexpr (KIND<T> == INTEGER)
        return x < 0 ? neg(x) : x;
    else if constexpr (KIND<T> == PAIR)
        return {abs(x.low), abs(x.high)};
    else
        return narrowed<T>(__builtin_fabs(widened(x)));
}

#define TILEDMM_CHOICE(name, sign, function)                                        \
    template <class T>                                                              \
    __forceinline__ T name(T x, T y) {                                              \
        if constexpr (KIND<T> == INTEGER) {                                         \
            return y sign x ? y : x;                                                \
        } else if constexpr (KIND<T> == PAIR) {                                     \
            return {name(x.low, y.low), name(x.high, y.high)};                      \
        } else {                                                                    \
            const double a = widened(x), b = widened(y);                            \
            if (a == 0 && b == 0) return (1 / a sign 1 / b) ? x : y;                \
            return narrowed<T>(function(a, b));                                     \
        }                                                                           \
    }
TILEDMM_CHOICE(min, <, __builtin_fmin)
TILEDMM_CHOICE(max, >, __builtin_fmax)
#undef TILEDMM_CHOICE

template <class T>
__forceinline__ T div(T x, T y) {
    if constexpr (KIND<T> == INTEGER) {
        if (y == 0) return static_cast<T>(-1);
        return IS_SIGNED<T> && y == static_cast<T>(-1) ? neg(x) : static_cast<T>(x / y);
    } else {
        TILEDMM_COUNT_FLOPS(1);
        return canonical(rounded(x / y));
    }
}
template <class T>
__forceinline__ T rem(T x, T y) {
    if (y == 0) return x;
    return IS_SIGNED<T> && y == static_cast<T>(-1) ? 0 : static_cast<T>(x % y);
}

// On a GPU approximations; here the double result is rounded.
#define TILEDMM_FUNCTION(name, expression)                           \
    template <class T>                                               \
    __forceinline__ T name(T operand) {                              \
        if constexpr (KIND<T> == PAIR) {                             \
            return {name(operand.low), name(operand.high)};          \
        } else {                                                     \
            const double x = widened(operand);                       \
            TILEDMM_COUNT_FLOPS(1);                                  \
            return narrowed<T>(expression);                          \
        }                                                            \
    }
TILEDMM_FUNCTION(ex2, __builtin_exp2(x))
TILEDMM_FUNCTION(lg2, __builtin_log2(x))
TILEDMM_FUNCTION(rcp, 1 / x)
TILEDMM_FUNCTION(sqrt, __builtin_sqrt(x))
TILEDMM_FUNCTION(rsqrt, 1 / __builtin_sqrt(x))
TILEDMM_FUNCTION(sin, __builtin_sin(x))
TILEDMM_FUNCTION(cos, __builtin_cos(x))
TILEDMM_FUNCTION(tanh, __builtin_tanh(x))
#undef TILEDMM_FUNCTION

// ---- bits ----

template <class T>
__forceinline__ T and_(T x, T y) {
    return static_cast<T>(x & y);
}
template <class T>
__forceinline__ T or_(T x, T y) {
    return static_cast<T>(x | y);
}
template <class T>
__forceinline__ T xor_(T x, T y) {
    return static_cast<T>(x ^ y);
}
template <class T>
__forceinline__ T not_(T x) {
    if constexpr (SAME<T, bool>)
        return !x;
    else
        return static_cast<T>(~x);
}
template <class T>
__forceinline__ T shl(T x, unsigned count) {
    return count < 8 * sizeof(T) ? static_cast<T>(static_cast<unsigned long long>(x) << count) : 0;
}
template <class T>
__forceinline__ T shr(T x, unsigned count) {
    constexpr unsigned WIDTH = 8 * sizeof(T);
    if (count < WIDTH) return static_cast<T>(x >> count);
    return IS_SIGNED<T> ? static_cast<T>(x >> (WIDTH - 1)) : 0;
}
__forceinline__ unsigned shf_l_wrap(unsigned low, unsigned high, unsigned count) { return __funnelshift_l(low, high, count); }
__forceinline__ unsigned shf_r_wrap(unsigned low, unsigned high, unsigned count) { return __funnelshift_r(low, high, count); }
__forceinline__ unsigned shf_l_clamp(unsigned low, unsigned high, unsigned count) {
    return count < 32 ? __funnelshift_l(low, high, count) : low;
}
__forceinline__ unsigned shf_r_clamp(unsigned low, unsigned high, unsigned count) {
    return count < 32 ? __funnelshift_r(low, high, count) : high;
}
template <class T>
__forceinline__ T bfe(T x, unsigned start, unsigned count) {
    constexpr unsigned WIDTH = 8 * sizeof(T);
    start &= 255, count &= 255;
    T field = 0;
    bool sign = false;
    if (IS_SIGNED<T> && count) sign = x >> (start + count - 1 < WIDTH ? start + count - 1 : WIDTH - 1) & 1;
    for (unsigned i = 0; i < WIDTH; ++i) {
        const bool bit = i < count && start + i < WIDTH ? static_cast<Bits<T>>(x) >> (start + i) & 1 : sign;
        field = static_cast<T>(static_cast<Bits<T>>(field) | static_cast<Bits<T>>(bit) << i);
    }
    return field;
}
template <class T>
__forceinline__ T bfi(T field, T x, unsigned start, unsigned count) {
    start &= 255, count &= 255;
    for (unsigned i = 0; i < count && start + i < 8 * sizeof(T); ++i) {
        const T bit = static_cast<T>(1) << (start + i);
        x = field >> i & 1 ? x | bit : x & ~bit;
    }
    return x;
}
template <class T>
__forceinline__ unsigned popc(T x) {
    return __builtin_popcountll(x);
}
template <class T>
__forceinline__ unsigned clz(T x) {
    return x ? __builtin_clzll(x) - (64 - 8 * sizeof(T)) : 8 * sizeof(T);
}
template <class T>
__forceinline__ T brev(T x) {
    if constexpr (sizeof(T) == 4)
        return __brev(x);
    else
        return static_cast<T>(__brev(static_cast<unsigned>(x))) << 32 | __brev(static_cast<unsigned>(x >> 32));
}
__forceinline__ unsigned prmt(unsigned x, unsigned y, unsigned selector) { return __byte_perm(x, y, selector); }
__forceinline__ unsigned lop3(unsigned x, unsigned y, unsigned z, unsigned table) {
    unsigned result = 0;
    for (unsigned i = 0; i < 8; ++i)
        if (table >> i & 1) result |= (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
    return result;
}
template <class A, class B, class Sum>
__forceinline__ Sum dp4a(unsigned x, unsigned y, Sum sum) {
    unsigned total = static_cast<unsigned>(sum);   // wraps
    for (int i = 0; i < 32; i += 8) total += static_cast<unsigned>(static_cast<A>(x >> i) * static_cast<B>(y >> i));
    return static_cast<Sum>(total);
}

// ---- comparisons ----

template <class T>
__forceinline__ auto comparable(T x) {
    if constexpr (KIND<T> == NARROW)
        return widened(x);
    else
        return x;
}
#define TILEDMM_COMPARISON(name, expression)             \
    template <class T>                                   \
    __forceinline__ bool name(T a, T b) {                \
        const auto x = comparable(a), y = comparable(b); \
        return expression;                               \
    }
TILEDMM_COMPARISON(compare_eq, x == y)
TILEDMM_COMPARISON(compare_ne, x < y || x > y)   // false for NaN
TILEDMM_COMPARISON(compare_lt, x < y)
TILEDMM_COMPARISON(compare_le, x <= y)
TILEDMM_COMPARISON(compare_gt, x > y)
TILEDMM_COMPARISON(compare_ge, x >= y)
TILEDMM_COMPARISON(compare_equ, !(x < y || x > y))
TILEDMM_COMPARISON(compare_neu, x != y)
TILEDMM_COMPARISON(compare_ltu, !(x >= y))
TILEDMM_COMPARISON(compare_leu, !(x > y))
TILEDMM_COMPARISON(compare_gtu, !(x <= y))
TILEDMM_COMPARISON(compare_geu, !(x < y))
TILEDMM_COMPARISON(compare_num, x == x && y == y)
TILEDMM_COMPARISON(compare_nan, x != x || y != y)
#undef TILEDMM_COMPARISON

// ---- conversions ----

template <Rounding TO>
__forceinline__ double whole(double x) {
    return TO == TO_NEAREST ? __builtin_nearbyint(x) : TO == TO_ZERO ? __builtin_trunc(x) : TO == DOWN ? __builtin_floor(x) : __builtin_ceil(x);
}
template <class T>
constexpr T LARGEST = IS_SIGNED<T> ? static_cast<T>(static_cast<Bits<T>>(~static_cast<Bits<T>>(0)) >> 1) : static_cast<T>(-1);
template <class T>
constexpr T SMALLEST = IS_SIGNED<T> ? static_cast<T>(-LARGEST<T> - 1) : 0;

template <class To, Rounding TO, class From>
__forceinline__ To convert_to_integer(From x) {
    const double value = whole<TO>(widened(x));
    if (value != value) return 0;
    if (value <= static_cast<double>(SMALLEST<To>)) return SMALLEST<To>;
    if (value >= static_cast<double>(LARGEST<To>)) return LARGEST<To>;
    return static_cast<To>(value);
}
template <class To, Rounding TO, class From>
__forceinline__ To convert_to_float(From x) {
    if constexpr (KIND<From> == INTEGER && KIND<To> == FLOAT)
        return static_cast<To>(x);
    else if constexpr (KIND<From> == INTEGER)
        return narrowed<To>(static_cast<double>(x));
    else
        return narrowed<To, TO>(widened(x));
}
template <class T, Rounding TO>
__forceinline__ T convert_to_whole(T x) {
    return narrowed<T>(whole<TO>(widened(x)));
}
template <class To, class From>
__forceinline__ To convert_saturated(From x) {
    const __int128 value = x;
    return value < SMALLEST<To> ? SMALLEST<To> : value > LARGEST<To> ? LARGEST<To> : static_cast<To>(x);
}
template <class To, Rounding TO>
__forceinline__ Pair<To> convert_pair(float high, float low) {
    return {convert_to_float<To, TO>(low), convert_to_float<To, TO>(high)};
}
// To the nearest, ties away from zero.
__forceinline__ unsigned convert_to_tf32(float x) {
    const unsigned bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffffffu;
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
}

// ---- barriers and warps ----

// Barrier `id` of some threads of the block: all if `threads` is 0.
__forceinline__ void sync_named(unsigned id, unsigned threads) { tiledmm_named_barrier(id, threads, true); }
__forceinline__ void arrive_at_named(unsigned id, unsigned threads) { tiledmm_named_barrier(id, threads, false); }

enum Shuffle { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };

// The lane whose value a lane gets, and whether that is inside its segment. `bounds`: the last lane of a segment in its low bits,
// and the bits of a lane that name its segment from bit 8 on.
template <Shuffle MODE>
__forceinline__ int shuffle_source(bool& inside, unsigned operand, unsigned bounds) {
    const int lane = static_cast<int>(tiledmm_lane()), step = static_cast<int>(operand & 31);
    const int segment = static_cast<int>(bounds >> 8 & 31), clamp = static_cast<int>(bounds & 31);
    const int last = (lane & segment) | (clamp & ~segment);
    int source = 0;
    if (MODE == SHFL_UP) source = lane - step;
    if (MODE == SHFL_DOWN) source = lane + step;
    if (MODE == SHFL_BFLY) source = lane ^ step;
    if (MODE == SHFL_IDX) source = (lane & segment) | (step & ~segment);
    inside = MODE == SHFL_UP ? source >= last : source <= last;
    return inside ? source : lane;
}

// `value_of(lane)` for all these lanes as one value.
#define TILEDMM_REDUCTION(name, function)                             \
    template <class T, class Function>                                \
    __forceinline__ T name(unsigned lanes, Function value_of) {       \
        T result = 0;                                                 \
        bool first = true;                                            \
        for (int lane = 0; lane < 32; ++lane) {                       \
            if (!(lanes >> lane & 1)) continue;                       \
            const T other = value_of(lane);                           \
            result = first ? other : function(result, other);         \
            first = false;                                            \
        }                                                             \
        return result;                                                \
    }
TILEDMM_REDUCTION(redux_add, add)
TILEDMM_REDUCTION(redux_min, min)
TILEDMM_REDUCTION(redux_max, max)
TILEDMM_REDUCTION(redux_and, and_)
TILEDMM_REDUCTION(redux_or, or_)
TILEDMM_REDUCTION(redux_xor, xor_)
#undef TILEDMM_REDUCTION

__forceinline__ unsigned thread_number() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

__forceinline__ unsigned long long clock() { return static_cast<unsigned long long>(tiledmm_clock()); }

// ---- matrices ----

// Lane 8 i + r points to row r of matrix i, 16 aligned bytes; other lanes' addresses are not used.
template <int COUNT, bool TRANSPOSED>
__forceinline__ void ldmatrix(unsigned (&fragment)[COUNT], const void* from) {
    using namespace tiledmm_detail;
    unsigned own[4] = {};
    if (tiledmm_lane() < 8 * COUNT) load<false>(own, from);
    const unsigned row = tiledmm_lane() / 4, quad = tiledmm_lane() % 4;
    for (unsigned half = 0; half < 2; ++half) {   // two registers of each row at a time
        exchange_registers(own[2 * half], own[2 * half + 1], LOAD_MATRIX);
        for (unsigned i = 0; i < COUNT; ++i) {
            if (!TRANSPOSED && quad / 2 == half)
                fragment[i] = static_cast<unsigned>(tiledmm_exchanged(8 * i + row) >> 32 * (quad % 2));
            if (TRANSPOSED && row / 4 == half) {   // element `row` of rows 2 * quad and 2 * quad + 1
                const unsigned shift = 16 * (row % 4);
                const auto first = tiledmm_exchanged(8 * i + 2 * quad) >> shift, second = tiledmm_exchanged(8 * i + 2 * quad + 1) >> shift;
                fragment[i] = static_cast<unsigned>(first & 0xffff) | static_cast<unsigned>(second & 0xffff) << 16;
            }
        }
    }
}

// The reverse: the registers of four lanes are a row, and lane 8 i + r stores row r of matrix i.
template <int COUNT, bool TRANSPOSED>
__forceinline__ void stmatrix(void* to, const unsigned (&fragment)[COUNT]) {
    using namespace tiledmm_detail;
    unsigned own[4] = {};
    const unsigned matrix = tiledmm_lane() / 8, row = tiledmm_lane() % 8;
    for (unsigned half = 0; half < (COUNT + 1) / 2; ++half) {
        exchange_registers(fragment[2 * half], COUNT > 1 ? fragment[2 * half + 1] : 0, STORE_MATRIX);
        if (matrix / 2 != half) continue;
        for (unsigned i = 0; i < 4; ++i) {   // elements 2 i and 2 i + 1 of the row
            const auto of = [&](unsigned lane) { return static_cast<unsigned>(tiledmm_exchanged(lane) >> 32 * (matrix % 2)); };
            const unsigned shift = 16 * (row % 2);
            if (TRANSPOSED)
                own[i] = (of(8 * i + row / 2) >> shift & 0xffff) | (of(8 * i + 4 + row / 2) >> shift & 0xffff) << 16;
            else
                own[i] = of(4 * row + i);
        }
    }
    if (matrix < COUNT) store<false>(to, own);
}

template <class ElementsA, class ElementsB>
struct Factors {
    using A = ElementsA;
    using B = ElementsB;
};

template <int K>
__forceinline__ float sum(float c, const tiledmm_detail::Aligned (&products)[K], bool) {
    return tiledmm_detail::sum_of_products(c, products);
}
template <int K>
__forceinline__ unsigned sum(unsigned c, const int (&products)[K], bool saturates) {
    long long total = static_cast<int>(c);
    for (int product : products) total += product;
    if (saturates) total = total > LARGEST<int> ? LARGEST<int> : total < SMALLEST<int> ? SMALLEST<int> : total;
    return static_cast<unsigned>(total);   // wraps
}

// D = A @ B + C with C of (ROWS, 8). A lane has REGISTERS along k of each of its rows of A and of its column of B; the layout
// is that of cuda_src/tensor_cores.cuh.
template <class Types, int ROWS, int REGISTERS, bool SATURATES, class Sum>
__forceinline__ void mma(Sum (&d)[ROWS / 4], const unsigned (&a)[ROWS / 8 * REGISTERS], const unsigned (&b)[REGISTERS], const Sum (&c)[ROWS / 4]) {
    using namespace tiledmm_detail;
    using A = typename Types::A;
    using B = typename Types::B;
    constexpr int K = 4 * REGISTERS * A::COUNT;
    const int row = static_cast<int>(tiledmm_lane() / 4), quad = static_cast<int>(tiledmm_lane() % 4);
    KVector rows[ROWS / 8], cols[2];
    for (int i = 0; i < ROWS / 8; ++i) {
        exchange_registers(a[i], REGISTERS == 2 ? a[i + (REGISTERS - 1) * (ROWS / 8)] : 0);
        rows[i] = exchanged_k_vector(row);
    }
    exchange_registers(b[0], REGISTERS == 2 ? b[REGISTERS - 1] : 0);
    for (int j = 0; j < 2; ++j) cols[j] = exchanged_k_vector(2 * quad + j);
    for (int i = 0; i < ROWS / 4; ++i) {
        decltype(multiplied(A::at(0u, 0), B::at(0u, 0))) products[K];
        for (int k = 0; k < K; ++k)
            products[k] = multiplied(A::at(rows[i / 2].packed[k / A::COUNT], k % A::COUNT), B::at(cols[i % 2].packed[k / B::COUNT], k % B::COUNT));
        d[i] = sum(c[i], products, SATURATES);
    }
    TILEDMM_COUNT_FLOPS(2 * (ROWS / 4) * K);
}

// The same with float16 accumulators, two in a register: the sum in float32 is rounded to the nearest.
template <class Types, int ROWS, int REGISTERS, bool SATURATES>
__forceinline__ void mma_half(unsigned (&d)[ROWS / 8], const unsigned (&a)[ROWS / 8 * REGISTERS], const unsigned (&b)[REGISTERS], const unsigned (&c)[ROWS / 8]) {
    float sums[ROWS / 4], from[ROWS / 4];
    for (int i = 0; i < ROWS / 4; ++i) from[i] = half_to_float(static_cast<unsigned short>(c[i / 2] >> 16 * (i % 2)));
    mma<Types, ROWS, REGISTERS, SATURATES>(sums, a, b, from);
    const auto half = [](float sum) {
        const unsigned bits = float_to_half(sum);
        return bits == 0x8000 ? 0 : bits;   // no zero is negative
    };
    for (int i = 0; i < ROWS / 8; ++i) d[i] = half(sums[2 * i]) | half(sums[2 * i + 1]) << 16;
}

// Each element of C is a chain of fused multiply-adds along k.
template <int ROWS, int REGISTERS>
__forceinline__ void mma_double(double (&d)[ROWS / 4], const double (&a)[ROWS / 8 * REGISTERS], const double (&b)[REGISTERS], const double (&c)[ROWS / 4]) {
    using namespace tiledmm_detail;
    const int row = static_cast<int>(tiledmm_lane() / 4), quad = static_cast<int>(tiledmm_lane() % 4);
    for (int i = 0; i < ROWS / 4; ++i) d[i] = c[i];
    for (int step = 0; step < REGISTERS; ++step) {
        double rows[ROWS / 8][4], cols[2][4];
        for (int i = 0; i < ROWS / 8; ++i) exchange_k_vector(rows[i], a[ROWS / 8 * step + i], row);
        for (int j = 0; j < 2; ++j) exchange_k_vector(cols[j], b[step], 2 * quad + j);
        for (int i = 0; i < ROWS / 4; ++i)
            for (int k = 0; k < 4; ++k) d[i] = ::fma(rows[i / 2][k], cols[i % 2][k], d[i]);
    }
}

}   // namespace tiledmm_ptx
