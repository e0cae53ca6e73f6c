// The functions of cuda_src/tensor_cores.cuh for the CPU: same names, and sums rounded as measured on an H100.
// Depends on: intrinsics.h, ptx.h, runtime.h
#pragma once

#include "intrinsics.h"
#include "ptx.h"
#include "runtime.h"

namespace tiledmm_detail {

using namespace tiledmm_package;

constexpr unsigned WHOLE_WARP = 0xffffffffu;
// Exchanges of none of CUDA's warp functions, in which all lanes of a warp take part.
constexpr unsigned TENSOR_CORE = 100, LOAD_MATRIX = 101, STORE_MATRIX = 102;

__forceinline__ double power_of_two(int exponent) {
    return __longlong_as_double(static_cast<long long>(exponent + 1023) << 52);
}

// The exponent of a number that is not zero.
__forceinline__ int exponent_of(double x) { return static_cast<int>(__double_as_longlong(x) >> 52 & 0x7ff) - 1023; }

// A float, or the exact product of two, and the exponent by which a sum aligns it: of a product, the sum of its factors'.
// Subnormals are not normalized first.
struct Aligned {
    double value;
    int exponent;
};
constexpr int LEAST_HALF = -14, LEAST_FLOAT = -126;   // exponents of normal numbers
__forceinline__ Aligned aligned(double x, int least) {
    const int exponent = exponent_of(x);
    return {x, exponent > least ? exponent : least};
}
__forceinline__ Aligned multiplied(Aligned a, Aligned b) { return {a.value * b.value, a.exponent + b.exponent}; }
__forceinline__ int multiplied(int a, int b) { return a * b; }

// The sum of c and all products as a tensor core computes it: aligned to the largest exponent and truncated 25 bits below
// it; the sum is rounded toward zero. No zero is negative.
template <int COUNT>
__forceinline__ float sum_of_products(float c, const Aligned (&products)[COUNT]) {
    constexpr int NONE = -10000, LEAST = -133;   // no sum is aligned to a smaller exponent
    double plain = c;
    int largest = c == 0 ? NONE : aligned(c, LEAST_FLOAT).exponent;
    for (const Aligned& product : products) {
        plain += product.value;
        if (product.value != 0 && product.exponent > largest) largest = product.exponent;
    }
    if (!(__builtin_fabs(plain) <= 0x1p1000)) return plain == plain ? static_cast<float>(plain) : __uint_as_float(0x7fffffffu);
    if (largest == NONE) return 0;
    const int unit = (largest > LEAST ? largest : LEAST) - 25;   // exponent of the last bit kept
    long long sum = static_cast<long long>(c * power_of_two(-unit));   // truncated
    for (const Aligned& product : products) sum += static_cast<long long>(product.value * power_of_two(-unit));
    if (sum == 0) return 0;
    unsigned long long size = sum < 0 ? -static_cast<unsigned long long>(sum) : sum;
    int drop = 63 - __builtin_clzll(size) - 23;   // float32 has 24 bits, down to multiples of 2^-149
    if (unit + drop < -149) drop = -149 - unit;
    if (drop > 0) size = drop > 63 ? 0 : size >> drop << drop;
    const double rounded = static_cast<double>(static_cast<long long>(size)) * power_of_two(unit);
    return static_cast<float>(sum < 0 ? -rounded : rounded) + 0.0f;
}
__forceinline__ unsigned sum_of_products(unsigned sum, const int (&products)[32]) {
    for (int product : products) sum += static_cast<unsigned>(product);   // wraps
    return sum;
}

// Packed elements: their number in a 32-bit register, and each as a value.
struct Float16 {
    static constexpr int COUNT = 2;
    static __forceinline__ Aligned at(unsigned packed, int i) {
        return aligned(half_to_float(static_cast<unsigned short>(packed >> 16 * i)), LEAST_HALF);
    }
};
struct Bfloat16 {
    static constexpr int COUNT = 2;
    static __forceinline__ Aligned at(unsigned packed, int i) { return aligned(__uint_as_float((packed >> 16 * i) << 16), LEAST_FLOAT); }
};
struct Tf32 {
    static constexpr int COUNT = 1;
    static __forceinline__ Aligned at(unsigned packed, int) { return aligned(__uint_as_float(packed & ~0x1fffu), LEAST_FLOAT); }
};
struct Int8 {
    static constexpr int COUNT = 4;
    static __forceinline__ int at(unsigned packed, int i) { return static_cast<signed char>(packed >> 8 * i); }
};
struct Uint8 {
    static constexpr int COUNT = 4;
    static __forceinline__ int at(unsigned packed, int i) { return static_cast<unsigned char>(packed >> 8 * i); }
};

// 8 registers along k of a row of A or a column of B: four lanes have two each.
struct KVector {
    unsigned packed[8];
};
__forceinline__ KVector exchanged_k_vector(int index) {
    KVector all;
    for (int quad = 0; quad < 4; ++quad) {
        const unsigned long long both = tiledmm_exchanged(4 * index + quad);
        all.packed[quad] = static_cast<unsigned>(both);
        all.packed[quad + 4] = static_cast<unsigned>(both >> 32);
    }
    return all;
}
__forceinline__ void exchange_registers(unsigned low, unsigned high, unsigned kind = TENSOR_CORE) {
    tiledmm_exchange(WHOLE_WARP, static_cast<unsigned long long>(high) << 32 | low, kind);
}

// The same for float64, with 4 elements along k: four lanes have one each.
__forceinline__ void exchange_k_vector(double (&all)[4], double own, int index) {
    tiledmm_exchange(WHOLE_WARP, static_cast<unsigned long long>(__double_as_longlong(own)), TENSOR_CORE);
    for (int quad = 0; quad < 4; ++quad) all[quad] = __longlong_as_double(static_cast<long long>(tiledmm_exchanged(4 * index + quad)));
}

template <class Elements, class Sum>
__forceinline__ void mma(Sum (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    constexpr int K = 8 * Elements::COUNT;
    const int row = static_cast<int>(tiledmm_lane() / 4), quad = static_cast<int>(tiledmm_lane() % 4);
    KVector rows[2], cols[2];
    for (int i = 0; i < 2; ++i) {
        exchange_registers(a[i], a[i + 2]);
        rows[i] = exchanged_k_vector(row);
    }
    exchange_registers(b[0], b[1]);
    for (int j = 0; j < 2; ++j) cols[j] = exchanged_k_vector(2 * quad + j);
    for (int i = 0; i < 4; ++i) {
        decltype(multiplied(Elements::at(0u, 0), Elements::at(0u, 0))) products[K];
        for (int k = 0; k < K; ++k)
            products[k] = multiplied(Elements::at(rows[i / 2].packed[k / Elements::COUNT], k % Elements::COUNT),
                                     Elements::at(cols[i % 2].packed[k / Elements::COUNT], k % Elements::COUNT));
        c[i] = sum_of_products(c[i], products);
    }
    TILEDMM_COUNT_FLOPS(2 * 4 * K);
}

}   // namespace tiledmm_detail

namespace tiledmm_package {

#define TILEDMM_MMA(name, Elements, Sum)                                                              \
    __forceinline__ void name(Sum (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {           \
        tiledmm_detail::mma<tiledmm_detail::Elements>(c, a, b);                                        \
    }
TILEDMM_MMA(mma_float16, Float16, float)
TILEDMM_MMA(mma_bfloat16, Bfloat16, float)
TILEDMM_MMA(mma_tf32, Tf32, float)
TILEDMM_MMA(mma_int8, Int8, unsigned)
TILEDMM_MMA(mma_uint8, Uint8, unsigned)
#undef TILEDMM_MMA

// One function for instructions of every shape: each element of C is a chain of fused multiply-adds along k.
template <int COUNT>
__forceinline__ void mma_float64(double (&c)[4], const double (&a)[2 * COUNT], const double (&b)[COUNT]) {
    using namespace tiledmm_detail;
    const int row = static_cast<int>(tiledmm_lane() / 4), quad = static_cast<int>(tiledmm_lane() % 4);
    for (int step = 0; step < COUNT; ++step) {
        double rows[2][4], cols[2][4];
        for (int i = 0; i < 2; ++i) exchange_k_vector(rows[i], a[2 * step + i], row);
        for (int j = 0; j < 2; ++j) exchange_k_vector(cols[j], b[step], 2 * quad + j);
        for (int i = 0; i < 4; ++i)
            for (int k = 0; k < 4; ++k) c[i] = fma(rows[i / 2][k], cols[i % 2][k], c[i]);
    }
}

__forceinline__ double load_float64(const double* shared) { return *shared; }

template <bool TRANSPOSED>
__forceinline__ void load_matrices(unsigned (&words)[4], const void* shared) {
    using namespace tiledmm_detail;
    const uint4 mine = *static_cast<const uint4*>(shared);
    const unsigned own[4] = {mine.x, mine.y, mine.z, mine.w};
    const unsigned row = tiledmm_lane() / 4, quad = tiledmm_lane() % 4;
    for (unsigned half = 0; half < 2; ++half) {   // two registers of each row at a time
        exchange_registers(own[2 * half], own[2 * half + 1], LOAD_MATRIX);
        for (unsigned i = 0; i < 4; ++i) {
            if (!TRANSPOSED && quad / 2 == half)
                words[i] = static_cast<unsigned>(tiledmm_exchanged(8 * i + row) >> 32 * (quad % 2));
            if (TRANSPOSED && row / 4 == half) {   // element `row` of rows 2 * quad and 2 * quad + 1
                const unsigned shift = 16 * (row % 4);
                const auto first = tiledmm_exchanged(8 * i + 2 * quad) >> shift, second = tiledmm_exchanged(8 * i + 2 * quad + 1) >> shift;
                words[i] = static_cast<unsigned>(first & 0xffff) | static_cast<unsigned>(second & 0xffff) << 16;
            }
        }
    }
}

}   // namespace tiledmm_package
