// Built-ins of CUDA C that only compute: vector types, and intrinsics with CUDA's rounding.
// Depends on: runtime.h (to count operations, where a kernel is instrumented)
#pragma once

#include "runtime.h"

#if TILEDMM_INSTRUMENTED
#define TILEDMM_COUNT_FLOPS(n) tiledmm_count_flops(n)
#else
#define TILEDMM_COUNT_FLOPS(n) ((void)0)
#endif

#define __forceinline__ inline __attribute__((always_inline))

// ---- vector types ----

#define TILEDMM_VECTOR(name, type, align2, align4)                                                   \
    struct name##1 { type x; };                                                                      \
    struct __attribute__((aligned(align2))) name##2 { type x, y; };                                  \
    struct name##3 { type x, y, z; };                                                                \
    struct __attribute__((aligned(align4))) name##4 { type x, y, z, w; };                            \
    __forceinline__ name##1 make_##name##1(type x) { return {x}; }                                   \
    __forceinline__ name##2 make_##name##2(type x, type y) { return {x, y}; }                        \
    __forceinline__ name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }             \
    __forceinline__ name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
TILEDMM_VECTOR(char, signed char, 2, 4)
TILEDMM_VECTOR(uchar, unsigned char, 2, 4)
TILEDMM_VECTOR(short, short, 4, 8)
TILEDMM_VECTOR(ushort, unsigned short, 4, 8)
TILEDMM_VECTOR(int, int, 8, 16)
TILEDMM_VECTOR(uint, unsigned int, 8, 16)
TILEDMM_VECTOR(long, long, 16, 16)
TILEDMM_VECTOR(ulong, unsigned long, 16, 16)
TILEDMM_VECTOR(longlong, long long, 16, 16)
TILEDMM_VECTOR(ulonglong, unsigned long long, 16, 16)
TILEDMM_VECTOR(float, float, 8, 16)
TILEDMM_VECTOR(double, double, 16, 16)
#undef TILEDMM_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// ---- bits ----

namespace tiledmm_detail {

// The unsigned integer of a size in bytes, and of the size of a type.
template <int BYTES>
struct Unsigned;
template <>
struct Unsigned<1> {
    using Type = unsigned char;
};
template <>
struct Unsigned<2> {
    using Type = unsigned short;
};
template <>
struct Unsigned<4> {
    using Type = unsigned;
};
template <>
struct Unsigned<8> {
    using Type = unsigned long long;
};
template <>
struct Unsigned<16> {
    using Type = unsigned __int128;
};
template <class T>
using Bits = typename Unsigned<sizeof(T)>::Type;

template <class To, class From>
__forceinline__ To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

// The value behind an optimization barrier: a rounded operation is not fused with the next.
__forceinline__ float rounded(float x) {
#if defined(__x86_64__)
    __asm__("" : "+x"(x));
#elif defined(__aarch64__)
    __asm__("" : "+w"(x));
#endif
    return x;
}
__forceinline__ double rounded(double x) {
#if defined(__x86_64__)
    __asm__("" : "+x"(x));
#elif defined(__aarch64__)
    __asm__("" : "+w"(x));
#endif
    return x;
}

}   // namespace tiledmm_detail

__forceinline__ unsigned __float_as_uint(float x) { return tiledmm_detail::bits_as<unsigned>(x); }
__forceinline__ int __float_as_int(float x) { return tiledmm_detail::bits_as<int>(x); }
__forceinline__ float __uint_as_float(unsigned x) { return tiledmm_detail::bits_as<float>(x); }
__forceinline__ float __int_as_float(int x) { return tiledmm_detail::bits_as<float>(x); }
__forceinline__ long long __double_as_longlong(double x) { return tiledmm_detail::bits_as<long long>(x); }
__forceinline__ double __longlong_as_double(long long x) { return tiledmm_detail::bits_as<double>(x); }
__forceinline__ int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
__forceinline__ int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
__forceinline__ double __hiloint2double(int high, int low) {
    return __longlong_as_double(static_cast<long long>(high) << 32 | static_cast<unsigned>(low));
}

__forceinline__ int __popc(unsigned x) { return __builtin_popcount(x); }
__forceinline__ int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__forceinline__ int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
__forceinline__ int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
__forceinline__ int __ffs(int x) { return __builtin_ffs(x); }
__forceinline__ int __ffsll(long long x) { return __builtin_ffsll(x); }
__forceinline__ unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
__forceinline__ unsigned long long __brevll(unsigned long long x) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 | __brev(static_cast<unsigned>(x >> 32));
}
__forceinline__ unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned pick = selector >> 4 * i & 15;
        unsigned byte = static_cast<unsigned>(both >> 8 * (pick & 7)) & 255;
        if (pick & 8) byte = byte & 128 ? 255 : 0;   // the sign of the byte, replicated
        result |= byte << 8 * i;
    }
    return result;
}
__forceinline__ unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31) >> 32);
}
__forceinline__ unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
__forceinline__ unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
__forceinline__ unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
__forceinline__ int __mulhi(int x, int y) { return static_cast<int>(static_cast<long long>(x) * y >> 32); }
__forceinline__ unsigned __umulhi(unsigned x, unsigned y) {
    return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32);
}
__forceinline__ long long __mul64hi(long long x, long long y) {
    return static_cast<long long>(static_cast<__int128>(x) * y >> 64);
}
__forceinline__ unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * y >> 64);
}
__forceinline__ int __dp4a(int x, int y, int sum) {
    unsigned total = static_cast<unsigned>(sum);   // wraps
    for (int i = 0; i < 32; i += 8)
        total += static_cast<unsigned>(static_cast<signed char>(x >> i) * static_cast<signed char>(y >> i));
    return static_cast<int>(total);
}
__forceinline__ unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    for (int i = 0; i < 32; i += 8) sum += (x >> i & 255) * (y >> i & 255);
    return sum;
}
__forceinline__ int __dp2a_lo(short2 x, char4 y, int sum) { return sum + x.x * y.x + x.y * y.y; }
__forceinline__ int __dp2a_hi(short2 x, char4 y, int sum) { return sum + x.x * y.z + x.y * y.w; }
__forceinline__ unsigned __dp2a_lo(ushort2 x, uchar4 y, unsigned sum) { return sum + x.x * y.x + x.y * y.y; }
__forceinline__ unsigned __dp2a_hi(ushort2 x, uchar4 y, unsigned sum) { return sum + x.x * y.z + x.y * y.w; }
__forceinline__ int __dp2a_lo(int x, int y, int sum) { return __dp2a_lo(tiledmm_detail::bits_as<short2>(x), tiledmm_detail::bits_as<char4>(y), sum); }
__forceinline__ int __dp2a_hi(int x, int y, int sum) { return __dp2a_hi(tiledmm_detail::bits_as<short2>(x), tiledmm_detail::bits_as<char4>(y), sum); }
__forceinline__ unsigned __dp2a_lo(unsigned x, unsigned y, unsigned sum) { return __dp2a_lo(tiledmm_detail::bits_as<ushort2>(x), tiledmm_detail::bits_as<uchar4>(y), sum); }
__forceinline__ unsigned __dp2a_hi(unsigned x, unsigned y, unsigned sum) { return __dp2a_hi(tiledmm_detail::bits_as<ushort2>(x), tiledmm_detail::bits_as<uchar4>(y), sum); }
__forceinline__ int __dp4a(char4 x, char4 y, int sum) { return __dp4a(tiledmm_detail::bits_as<int>(x), tiledmm_detail::bits_as<int>(y), sum); }
__forceinline__ unsigned __dp4a(uchar4 x, uchar4 y, unsigned sum) { return __dp4a(tiledmm_detail::bits_as<unsigned>(x), tiledmm_detail::bits_as<unsigned>(y), sum); }
__forceinline__ int __mul24(int x, int y) {   // the low 32 bits of the product of the low 24
    return static_cast<int>(static_cast<unsigned>((x << 8) >> 8) * static_cast<unsigned>((y << 8) >> 8));
}
__forceinline__ unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
__forceinline__ unsigned __sad(int x, int y, unsigned z) {
    return z + (x < y ? static_cast<unsigned>(y) - static_cast<unsigned>(x) : static_cast<unsigned>(x) - static_cast<unsigned>(y));
}
__forceinline__ unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x < y ? y - x : x - y); }
__forceinline__ int __hadd(int x, int y) { return static_cast<int>((static_cast<long long>(x) + y) >> 1); }
__forceinline__ int __rhadd(int x, int y) { return static_cast<int>((static_cast<long long>(x) + y + 1) >> 1); }
__forceinline__ unsigned __uhadd(unsigned x, unsigned y) { return static_cast<unsigned>((static_cast<unsigned long long>(x) + y) >> 1); }
__forceinline__ unsigned __urhadd(unsigned x, unsigned y) { return static_cast<unsigned>((static_cast<unsigned long long>(x) + y + 1) >> 1); }

// ---- numbers ----

#define TILEDMM_MIN_MAX(result, first, second)                                            \
    __forceinline__ result min(first a, second b) {                                       \
        const result x = static_cast<result>(a), y = static_cast<result>(b);              \
        return y < x ? y : x;                                                             \
    }                                                                                     \
    __forceinline__ result max(first a, second b) {                                       \
        const result x = static_cast<result>(a), y = static_cast<result>(b);              \
        return x < y ? y : x;                                                             \
    }
#define TILEDMM_MIN_MAX_MIXED(result, other)     \
    TILEDMM_MIN_MAX(result, result, result)      \
    TILEDMM_MIN_MAX(result, result, other)       \
    TILEDMM_MIN_MAX(result, other, result)
TILEDMM_MIN_MAX(int, int, int)
TILEDMM_MIN_MAX(long, long, long)
TILEDMM_MIN_MAX(long long, long long, long long)
TILEDMM_MIN_MAX_MIXED(unsigned, int)
TILEDMM_MIN_MAX_MIXED(unsigned long, long)
TILEDMM_MIN_MAX_MIXED(unsigned long long, long long)
#undef TILEDMM_MIN_MAX_MIXED
#undef TILEDMM_MIN_MAX
__forceinline__ float fminf(float x, float y) { return __builtin_fminf(x, y); }
__forceinline__ float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
__forceinline__ double fmin(double x, double y) { return __builtin_fmin(x, y); }
__forceinline__ double fmax(double x, double y) { return __builtin_fmax(x, y); }
__forceinline__ float min(float x, float y) { return __builtin_fminf(x, y); }
__forceinline__ float max(float x, float y) { return __builtin_fmaxf(x, y); }
__forceinline__ double min(double x, double y) { return __builtin_fmin(x, y); }
__forceinline__ double max(double x, double y) { return __builtin_fmax(x, y); }
__forceinline__ double min(float x, double y) { return __builtin_fmin(x, y); }
__forceinline__ double max(float x, double y) { return __builtin_fmax(x, y); }
__forceinline__ double min(double x, float y) { return __builtin_fmin(x, y); }
__forceinline__ double max(double x, float y) { return __builtin_fmax(x, y); }
__forceinline__ unsigned umin(unsigned x, unsigned y) { return x < y ? x : y; }
__forceinline__ unsigned umax(unsigned x, unsigned y) { return x < y ? y : x; }
__forceinline__ long long llmin(long long x, long long y) { return x < y ? x : y; }
__forceinline__ long long llmax(long long x, long long y) { return x < y ? y : x; }
__forceinline__ unsigned long long ullmin(unsigned long long x, unsigned long long y) { return x < y ? x : y; }
__forceinline__ unsigned long long ullmax(unsigned long long x, unsigned long long y) { return x < y ? y : x; }
__forceinline__ float fabsf(float x) { return __builtin_fabsf(x); }
__forceinline__ double fabs(double x) { return __builtin_fabs(x); }
__forceinline__ int abs(int x) { return x < 0 ? -x : x; }
__forceinline__ long abs(long x) { return x < 0 ? -x : x; }
__forceinline__ long long abs(long long x) { return x < 0 ? -x : x; }
__forceinline__ float abs(float x) { return __builtin_fabsf(x); }
__forceinline__ double abs(double x) { return __builtin_fabs(x); }
__forceinline__ long labs(long x) { return x < 0 ? -x : x; }
__forceinline__ long long llabs(long long x) { return x < 0 ? -x : x; }

__forceinline__ float fmaf(float x, float y, float z) {
    TILEDMM_COUNT_FLOPS(2);
    return tiledmm_detail::rounded(__builtin_fmaf(x, y, z));
}
__forceinline__ double fma(double x, double y, double z) {
    TILEDMM_COUNT_FLOPS(2);
    return tiledmm_detail::rounded(__builtin_fma(x, y, z));
}
__forceinline__ float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
__forceinline__ float __fmaf_ieee_rn(float x, float y, float z) { return fmaf(x, y, z); }
__forceinline__ double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

#define TILEDMM_OPERATION(name, type, expression)      \
    __forceinline__ type name(type x, type y) {        \
        TILEDMM_COUNT_FLOPS(1);                        \
        return tiledmm_detail::rounded(expression);    \
    }
TILEDMM_OPERATION(__fadd_rn, float, x + y)
TILEDMM_OPERATION(__fsub_rn, float, x - y)
TILEDMM_OPERATION(__fmul_rn, float, x* y)
TILEDMM_OPERATION(__fdiv_rn, float, x / y)
TILEDMM_OPERATION(__dadd_rn, double, x + y)
TILEDMM_OPERATION(__dsub_rn, double, x - y)
TILEDMM_OPERATION(__dmul_rn, double, x* y)
TILEDMM_OPERATION(__ddiv_rn, double, x / y)
#undef TILEDMM_OPERATION

// ---- loads and stores with cache hints, which have no effect here ----

#define TILEDMM_LOAD(name)                                  \
    template <class T>                                      \
    __forceinline__ T name(const T* at) {                   \
        return *at;                                         \
    }
TILEDMM_LOAD(__ldg)
TILEDMM_LOAD(__ldca)
TILEDMM_LOAD(__ldcs)
TILEDMM_LOAD(__ldlu)
#undef TILEDMM_LOAD

// These bypass L1 and so see what other threads write, as a volatile access does.
#define TILEDMM_LOAD(name)                                                                 \
    template <class T>                                                                     \
    __forceinline__ T name(const T* at) {                                                  \
        using Access = typename tiledmm_detail::Unsigned<sizeof(T)>::Type;                 \
        const Access bits = *reinterpret_cast<const volatile Access*>(at);                 \
        T value;                                                                           \
        __builtin_memcpy(&value, &bits, sizeof value);                                     \
        return value;                                                                      \
    }
TILEDMM_LOAD(__ldcg)
TILEDMM_LOAD(__ldcv)
#undef TILEDMM_LOAD

#define TILEDMM_STORE(name)                                 \
    template <class T>                                      \
    __forceinline__ void name(T* at, T value) {             \
        *at = value;                                        \
    }
TILEDMM_STORE(__stwb)
TILEDMM_STORE(__stcg)
TILEDMM_STORE(__stcs)
TILEDMM_STORE(__stwt)
#undef TILEDMM_STORE
