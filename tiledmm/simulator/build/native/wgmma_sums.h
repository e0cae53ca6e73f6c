// The sums of one wgmma, bit by bit as Hopper GPUs compute them: benchmarks/studies/wgmma_sums.py measures and describes them.
//
// All products of a sum, and C, are aligned to the largest exponent and truncated some bits below it; the exponent of a
// product is the sum of its factors'. So each factor is decoded once, to its value and the power of two of its exponent,
// as floating-point numbers: both multiply exactly, and the largest product of powers is what a sum aligns to.
//
// Depends on: asynchronous.h
#pragma once

#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "asynchronous.h"

namespace tiledmm_detail {

constexpr unsigned WGMMA_ROWS = 16;        // of a warp
constexpr unsigned WGMMA_ROW_BYTES = 32;   // of a row of A, and of a column of B: what one instruction multiplies along k
constexpr unsigned WGMMA_BLOCK = 8;        // columns of B, and sums, that are computed at the same time

// No sum is aligned to a smaller exponent.
constexpr double LEAST_POWER = 0x1p-133;

// ---- values ----

template <class To, class From>
inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    std::memcpy(&to, &from, sizeof(to));
    return to;
}

// 2 to an exponent for which it is a normal number.
template <class Real>
inline Real power_of(int exponent);
template <>
inline float power_of(int exponent) {
    return bits_as<float>(static_cast<uint32_t>(exponent + 127) << 23);
}
template <>
inline double power_of(int exponent) {
    return bits_as<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// An element of A or B: its value, and 2 to the exponent by which its products are aligned; 0 for zeros.
template <class Real>
struct Factor {
    Real value, power;
    bool is_finite;
};

// A floating-point format. Products of two factors, and of their powers, are exact in `Real`, and never subnormal in it.
template <class Packed, int FRACTION_BITS, int BIAS, class RealType>
struct Floats {
    using Real = RealType;
    static constexpr unsigned K = WGMMA_ROW_BYTES / sizeof(Packed);
    static constexpr bool IS_8_BIT = sizeof(Packed) == 1, HAS_INFINITY = !(IS_8_BIT && FRACTION_BITS == 3);
    static constexpr int KEPT = IS_8_BIT ? 13 : 25;      // bits below the largest exponent that a sum keeps
    static constexpr int ROUNDED = IS_8_BIT ? 13 : 23;   // bits of the fraction of a float32 sum
    static constexpr unsigned IGNORED = sizeof(Packed) == 4 ? 13 : 0;   // bits at the end: tf32 is float32 without them

    static Factor<Real> at(const uint8_t* packed, unsigned i) {
        constexpr int BITS = 8 * sizeof(Packed), TOP = (1 << (BITS - 1 - FRACTION_BITS)) - 1;
        Packed all;
        std::memcpy(&all, packed + i * sizeof(Packed), sizeof(Packed));
        const unsigned bits = all >> IGNORED << IGNORED;
        const int fraction = static_cast<int>(bits & ((1u << FRACTION_BITS) - 1));
        const int field = static_cast<int>(bits >> FRACTION_BITS) & TOP;
        const int exponent = (field ? field : 1) - BIAS, significand = field ? fraction + (1 << FRACTION_BITS) : fraction;
        const Real size = static_cast<Real>(significand) * power_of<Real>(exponent - FRACTION_BITS);
        // Without a branch, because signs are hard to predict.
        const Real value = size * static_cast<Real>(1 - 2 * static_cast<int>(bits >> (BITS - 1)));
        if (field == TOP && (HAS_INFINITY || fraction == (1 << FRACTION_BITS) - 1))
            return {HAS_INFINITY && fraction == 0 ? value * static_cast<Real>(INFINITY) : static_cast<Real>(NAN), 0, false};
        return {value, significand ? power_of<Real>(exponent) : 0, true};   // subnormal numbers are not normalized
    }
};
using Float16Format = Floats<uint16_t, 10, 15, float>;
using Bfloat16Format = Floats<uint16_t, 7, 127, double>;
using Tf32Format = Floats<uint32_t, 23, 127, double>;
using E4m3Format = Floats<uint8_t, 3, 7, float>;
using E5m2Format = Floats<uint8_t, 2, 15, float>;

// 8-bit integers: the sum of 32 products is below 2^24, so it is exact in float32.
template <class Packed>
struct Integers {
    using Real = float;
    static constexpr unsigned K = WGMMA_ROW_BYTES;
    static Factor<Real> at(const uint8_t* packed, unsigned i) {
        return {static_cast<Real>(static_cast<Packed>(packed[i])), 0, true};
    }
};

inline float half_value(unsigned bits) {   // the lower 16
    const float size = bits_as<float>((bits & 0x7fff) << 13) * 0x1p112f;
    const float value = (bits & 0x7c00) == 0x7c00 ? (bits & 0x3ff ? NAN : INFINITY) : size;
    return bits & 0x8000 ? -value : value;
}

// A float16, rounded to nearest, ties to even.
inline unsigned half_bits(double x) {
    const unsigned sign = std::signbit(x) ? 0x8000 : 0;
    const double size = std::fabs(x);
    if (size != size) return 0x7fff;
    if (size >= 65520) return sign | 0x7c00;
    // Adding this number leaves as many bits as a float16 has: 11, down to multiples of 2^-24. No zero is negative.
    const int exponent = static_cast<int>(bits_as<uint64_t>(size) >> 52) - 1023;
    const double shift = power_of<double>((exponent > -14 ? exponent : -14) - 10 + 52);
    const float rounded = static_cast<float>((size + shift) - shift);
    return rounded == 0 ? 0 : sign | bits_as<uint32_t>(rounded * 0x1p-112f) >> 13;
}

// A float32 with the given number of bits of fraction, rounded toward zero. No zero is negative.
template <int ROUNDED>
inline float truncated(double x) {
    const double cut = bits_as<double>(bits_as<uint64_t>(x) >> (52 - ROUNDED) << (52 - ROUNDED));
    if (std::fabs(cut) >= 0x1p-126 || cut != cut) return static_cast<float>(cut);
    return static_cast<float>(static_cast<int32_t>(cut * 0x1p149)) * 0x1p-149f;   // subnormal: a multiple of 2^-149
}

// ---- the lanes' registers ----

// Where the sums of a row and 8 columns are among those of 32 lanes: of the first column, and of others from there on. A lane
// has two columns.
inline unsigned first_sum(unsigned row, unsigned column, unsigned per_lane) {
    return 4 * (row % 8) * per_lane + column / 8 * 4 + row / 8 * 2;
}
inline unsigned next_sum(unsigned column, unsigned per_lane) { return column / 2 * per_lane + column % 2; }

// The registers of A as rows of 32 bytes, whatever the elements' type.
inline void pack_rows(const uint32_t (&registers)[32][4], uint8_t* a) {
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned i = 0; i < 4; ++i)
            std::memcpy(a + (lane / 4 + i % 2 * 8) * WGMMA_ROW_BYTES + (lane % 4 + i / 2 * 4) * 4, &registers[lane][i], 4);
}

// ---- sums ----

// As many numbers as all CPUs compute at the same time. Compilers lower these operations to what the CPU has.
template <class Real>
struct Vector;
template <>
struct Vector<float> {
    static constexpr unsigned LANES = 4;
    typedef float Reals __attribute__((vector_size(16)));
    typedef int32_t Ints __attribute__((vector_size(16)));
};
template <>
struct Vector<double> {
    static constexpr unsigned LANES = 2;
    typedef double Reals __attribute__((vector_size(16)));
    typedef int32_t Ints __attribute__((vector_size(8)));
};

// A block of columns of B, decoded, with the elements of a step of k side by side; and the rows of A.
template <class Real, unsigned K>
struct Columns {
    alignas(16) Real values[K][WGMMA_BLOCK], powers[K][WGMMA_BLOCK];
    bool are_finite[WGMMA_BLOCK];
};
template <class Real, unsigned K>
struct Rows {
    Real values[WGMMA_ROWS][K], powers[WGMMA_ROWS][K];
    bool are_finite[WGMMA_ROWS];
};

template <class Real>
inline typename Vector<Real>::Reals load(const Real* from) {
    typename Vector<Real>::Reals all;
    std::memcpy(&all, from, sizeof(all));
    return all;
}

// Sums of products in units of 2^-KEPT of the largest power, and these powers, for one row of A.
template <int KEPT, class Real, unsigned K>
inline void sum_products(const Real* values, const Real* powers, const Columns<Real, K>& b, Real (&largest)[WGMMA_BLOCK],
                         int32_t (&sums)[WGMMA_BLOCK]) {
    using Reals = typename Vector<Real>::Reals;
    using Ints = typename Vector<Real>::Ints;
    constexpr unsigned LANES = Vector<Real>::LANES, COUNT = WGMMA_BLOCK / LANES;
    Reals highest[COUNT], scales[COUNT];
    for (unsigned v = 0; v < COUNT; ++v) highest[v] = load(largest + v * LANES);
    for (unsigned k = 0; k < K; ++k)
#pragma GCC unroll 4   // the sums stay in registers
        for (unsigned v = 0; v < COUNT; ++v) {
            const Reals power = powers[k] * load(b.powers[k] + v * LANES);
            highest[v] = highest[v] > power ? highest[v] : power;
        }
    // Products that are float32 are zero or larger than this, so their scale has only to be finite.
    const Real least = static_cast<Real>(sizeof(Real) == 4 ? 0x1p-100 : LEAST_POWER);
    for (unsigned v = 0; v < COUNT; ++v) {
        std::memcpy(largest + v * LANES, &highest[v], sizeof(Reals));
        for (unsigned lane = 0; lane < LANES; ++lane) highest[v][lane] = highest[v][lane] > least ? highest[v][lane] : least;
        scales[v] = power_of<Real>(KEPT) / highest[v];
    }
    Ints totals[COUNT] = {};
    for (unsigned k = 0; k < K; ++k)
#pragma GCC unroll 4
        for (unsigned v = 0; v < COUNT; ++v)
            totals[v] += __builtin_convertvector(values[k] * load(b.values[k] + v * LANES) * scales[v], Ints);   // truncates
    for (unsigned v = 0; v < COUNT; ++v) std::memcpy(sums + v * LANES, &totals[v], sizeof(Ints));
}

// The rows of A, decoded; negated if a scale of the instruction says so.
template <class A>
inline void decode_rows(const uint8_t* a, bool negates, Rows<typename A::Real, A::K>& rows) {
    for (unsigned row = 0; row < WGMMA_ROWS; ++row) {
        rows.are_finite[row] = true;
        for (unsigned k = 0; k < A::K; ++k) {
            const auto factor = A::at(a + row * WGMMA_ROW_BYTES, k);
            rows.are_finite[row] &= factor.is_finite;
            rows.values[row][k] = !factor.is_finite ? 0 : negates ? -factor.value : factor.value;
            rows.powers[row][k] = factor.power;
        }
    }
}
template <class B>
inline void decode_columns(const uint8_t* b, Columns<typename B::Real, B::K>& columns) {
    for (unsigned column = 0; column < WGMMA_BLOCK; ++column) {
        columns.are_finite[column] = true;
        for (unsigned k = 0; k < B::K; ++k) {
            const auto factor = B::at(b + column * WGMMA_ROW_BYTES, k);
            columns.are_finite[column] &= factor.is_finite;
            columns.values[k][column] = factor.is_finite ? factor.value : 0;
            columns.powers[k][column] = factor.power;
        }
    }
}

// The sum in float64 where an element or C is infinite or NaN: it says which of the two the sum is.
template <class A, class B>
__attribute__((noinline)) double plain_sum(double c, const uint8_t* a, const uint8_t* b, bool negates) {
    double sum = c;
    for (unsigned k = 0; k < A::K; ++k) {
        const double product = static_cast<double>(A::at(a, k).value) * static_cast<double>(B::at(b, k).value);
        sum += negates ? -product : product;
    }
    return sum;
}

// The sums D of a warp among its lanes' registers.
struct FloatSums {
    static constexpr float LEAST = 0x1p-126f;   // the power of subnormal numbers
    uint32_t* registers;
    unsigned per_lane;   // sums
    float at(unsigned i) const { return bits_as<float>(registers[i]); }
    template <int ROUNDED>
    void set(unsigned i, double sum) const {
        registers[i] = sum == sum ? bits_as<uint32_t>(truncated<ROUNDED>(sum)) : 0x7fffffffu;
    }
};
struct HalfSums {
    static constexpr float LEAST = 0x1p-14f;
    uint32_t* registers;
    unsigned per_lane;
    float at(unsigned i) const { return half_value(registers[i / 2] >> i % 2 * 16); }
    template <int>
    void set(unsigned i, double sum) const {
        const unsigned shift = i % 2 * 16;
        registers[i / 2] = (registers[i / 2] & ~(0xffffu << shift)) | half_bits(sum) << shift;
    }
};

template <class A, class B, class Sums>
inline void multiply_floats(const Wgmma& product, const uint8_t* a, const uint8_t* b, Sums d) {
    using Real = typename A::Real;
    const bool negates = product.scale_a * product.scale_b < 0;
    Rows<Real, A::K> rows;
    decode_rows<A>(a, negates, rows);
    for (unsigned first = 0; first < product.n; first += WGMMA_BLOCK) {
        Columns<Real, B::K> columns;
        const uint8_t* const block = b + first * WGMMA_ROW_BYTES;
        decode_columns<B>(block, columns);
        for (unsigned row = 0; row < WGMMA_ROWS; ++row) {
            float c[WGMMA_BLOCK] = {};
            Real largest[WGMMA_BLOCK];
            int32_t totals[WGMMA_BLOCK];
            const unsigned at = first_sum(row, first, d.per_lane);
            for (unsigned column = 0; column < WGMMA_BLOCK; ++column) {
                if (product.scale_d) c[column] = d.at(at + next_sum(column, d.per_lane));
                const float power = bits_as<float>(bits_as<uint32_t>(c[column]) & 0x7f800000);   // infinity for that and NaN
                largest[column] = c[column] == 0 ? 0 : power > Sums::LEAST ? power : Sums::LEAST;
            }
            sum_products<A::KEPT>(rows.values[row], rows.powers[row], columns, largest, totals);
            for (unsigned column = 0; column < WGMMA_BLOCK; ++column) {
                const double plus = c[column], power = largest[column] > LEAST_POWER ? largest[column] : LEAST_POWER;
                const bool is_finite = rows.are_finite[row] && columns.are_finite[column] && power < INFINITY;
                double sum;
                if (is_finite) {
                    const auto added = static_cast<int32_t>(plus * (power_of<double>(A::KEPT) / power));   // truncated
                    sum = (static_cast<double>(totals[column]) + added) * (power * power_of<double>(-A::KEPT));
                } else {
                    sum = plain_sum<A, B>(plus, a + row * WGMMA_ROW_BYTES, block + column * WGMMA_ROW_BYTES, negates);
                }
                d.template set<A::ROUNDED>(at + next_sum(column, d.per_lane), sum);
            }
        }
    }
}

template <class A, class B>
inline void multiply_integers(const Wgmma& product, const uint8_t* a, const uint8_t* b, uint32_t* d) {
    Rows<float, A::K> rows;
    decode_rows<A>(a, false, rows);
    for (unsigned first = 0; first < product.n; first += WGMMA_BLOCK) {
        Columns<float, B::K> columns;
        decode_columns<B>(b + first * WGMMA_ROW_BYTES, columns);
        for (unsigned row = 0; row < WGMMA_ROWS; ++row) {
            using Reals = Vector<float>::Reals;
            Reals totals[WGMMA_BLOCK / 4] = {};
            for (unsigned k = 0; k < A::K; ++k)
                for (unsigned v = 0; v < WGMMA_BLOCK / 4; ++v)
                    totals[v] += rows.values[row][k] * load(columns.values[k] + v * 4);
            const unsigned per_lane = product.n / 2, at = first_sum(row, first, per_lane);
            for (unsigned column = 0; column < WGMMA_BLOCK; ++column) {
                uint32_t& sum = d[at + next_sum(column, per_lane)];
                int64_t total = static_cast<int64_t>(totals[column / 4][column % 4]);
                if (product.scale_d) total += static_cast<int32_t>(sum);
                if (product.saturates) total = total < INT32_MIN ? INT32_MIN : total > INT32_MAX ? INT32_MAX : total;
                sum = static_cast<uint32_t>(total);   // wraps
            }
        }
    }
}

template <class A, class B>
inline void multiply_floats(const Wgmma& product, const uint8_t* a, const uint8_t* b, uint32_t* sums) {
    if constexpr (sizeof(typename A::Real) == sizeof(float)) {   // other types have no sums in float16
        if (product.sum_type == F16) return multiply_floats<A, B>(product, a, b, HalfSums{sums, product.n / 2});
    }
    multiply_floats<A, B>(product, a, b, FloatSums{sums, product.n / 2});
}

// D = A @ B + D of a warp.
//   a     16 rows of 32 bytes: elements along k
//   b     n columns of 32 bytes, likewise
//   sums  [32 lanes][registers]: read unless scale_d is 0, and written
// The types are some that the instruction has; others leave the sums as they are.
inline void multiply(const Wgmma& product, const uint8_t* a, const uint8_t* b, uint32_t* sums) {
    const bool same = product.a_type == product.b_type;
    switch (product.a_type) {
        case F16: return multiply_floats<Float16Format, Float16Format>(product, a, b, sums);
        case BF16: return multiply_floats<Bfloat16Format, Bfloat16Format>(product, a, b, sums);
        case TF32: return multiply_floats<Tf32Format, Tf32Format>(product, a, b, sums);
        case E4M3:
            return same ? multiply_floats<E4m3Format, E4m3Format>(product, a, b, sums)
                        : multiply_floats<E4m3Format, E5m2Format>(product, a, b, sums);
        case E5M2:
            return same ? multiply_floats<E5m2Format, E5m2Format>(product, a, b, sums)
                        : multiply_floats<E5m2Format, E4m3Format>(product, a, b, sums);
        case S8:
            return same ? multiply_integers<Integers<int8_t>, Integers<int8_t>>(product, a, b, sums)
                        : multiply_integers<Integers<int8_t>, Integers<uint8_t>>(product, a, b, sums);
        case U8:
            return same ? multiply_integers<Integers<uint8_t>, Integers<uint8_t>>(product, a, b, sums)
                        : multiply_integers<Integers<uint8_t>, Integers<int8_t>>(product, a, b, sums);
        default: return;
    }
}

}   // namespace tiledmm_detail
