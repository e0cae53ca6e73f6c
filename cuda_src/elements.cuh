// Element types: how each is stored in memory, what its sums are accumulated in, and how one becomes another.
//
//   stored                    accumulated as     why
//   float16 bfloat16 float32  float32            rounded once, at the end
//   float64                   float64
//   complex64 complex128      the same           four real fused multiply-adds a product
//   (u)int8 .. (u)int32       unsigned 32-bit    wraps; the low bits of a product depend on the low bits alone
//   (u)int64                  unsigned 64-bit
//   boolean                   any-of-ands
//   int8x4 uint8x4            unsigned 32-bit    four products an instruction: words that pack_words made
//   booleanx32                any-of-ands        32 an instruction

using int8 = signed char;
using int16 = short;
using int32 = int;
using int64 = long long;
using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;
using float32 = float;
using tf32 = float32;   // multiplied by tensor cores, which ignore the last 13 bits
using float64 = double;

struct boolean {
    uint8 byte;   // any value but 0 is true, as NumPy reads it
};
struct float16 {
    uint16 bits;
};
struct bfloat16 {
    uint16 bits;
};
template <class Real>
struct alignas(2 * sizeof(Real)) Complex {
    Real re, im;
};
using complex64 = Complex<float32>;
using complex128 = Complex<float64>;

struct Truth {
    uint32 bit;
};

struct int8x4 {   // neighbours along k, the first in the lowest byte
    using Element = int8;
    uint32 bits;
};
struct uint8x4 {
    using Element = uint8;
    uint32 bits;
};
struct booleanx32 {
    using Element = boolean;
    uint32 bits;
};

struct Bytes {   // four elements, or the sum of products of such
    uint32 bits;
};
struct Bits {   // 32 elements, or, in any order, the truth of what their ands came to
    uint32 bits;
};

// ---- widen: a stored element as the number it is ----

__device__ __forceinline__ float widen(float16 x) { return half_to_float(x.bits); }
__device__ __forceinline__ float widen(bfloat16 x) { return __uint_as_float(static_cast<uint32>(x.bits) << 16); }
__device__ __forceinline__ uint8 widen(boolean x) { return x.byte != 0; }
template <class T>
__device__ __forceinline__ T widen(T x) {
    return x;
}

// ---- cast: a number as an element of another type, rounded to nearest even ----

template <class To>
struct Cast {
    template <class From>
    static __device__ __forceinline__ To from(From x) {
        return static_cast<To>(x);
    }
};
template <>
struct Cast<float32> {
    static __device__ __forceinline__ float32 from(float32 x) { return x; }
    static __device__ __forceinline__ float32 from(float64 x) { return double_to_float(x); }
    template <class Integer>
    static __device__ __forceinline__ float32 from(Integer x) {
        return static_cast<float32>(x);
    }
};
template <>
struct Cast<float64> {
    static __device__ __forceinline__ float64 from(float32 x) { return float_to_double(x); }
    template <class Number>
    static __device__ __forceinline__ float64 from(Number x) {
        return static_cast<float64>(x);
    }
};
template <>
struct Cast<float16> {
    static __device__ __forceinline__ float16 from(float64 x) { return {double_to_half(x)}; }
    template <class Number>
    static __device__ __forceinline__ float16 from(Number x) {
        return {float_to_half(Cast<float32>::from(x))};
    }
};
template <>
struct Cast<bfloat16> {
    template <class Number>
    static __device__ __forceinline__ bfloat16 from(Number x) {
        return {float_to_bfloat(Cast<float32>::from(x))};
    }
};
template <class Real>
struct Cast<Complex<Real>> {
    template <class Other>
    static __device__ __forceinline__ Complex<Real> from(Complex<Other> x) {
        return {Cast<Real>::from(x.re), Cast<Real>::from(x.im)};
    }
    template <class Number>
    static __device__ __forceinline__ Complex<Real> from(Number x) {
        return {Cast<Real>::from(x), Real(0)};
    }
};
template <>
struct Cast<boolean> {
    static __device__ __forceinline__ boolean from(uint8 x) { return {x}; }
};

// A float32 number for tensor cores, which ignore its last 13 bits: the nearest that has 11 significant bits, ties away from zero,
// and anything in those 13. A NaN is one still. (What cvt.rna.tf32.f32 comes to, but for the NaNs.)
__device__ __forceinline__ unsigned rounded_to_tf32(float x) {
    const bool finite = fabsf(x) < __uint_as_float(0x7f800000u);
    return finite ? __float_as_uint(x) + (1u << 12) : __float_as_uint(x + x);   // which has a NaN begin with a bit
}

// ---- Accumulator<T>: what the products of two elements of type T are summed in (declared to be looked up, never called) ----

__device__ float32 sum_type(float16);
__device__ float32 sum_type(bfloat16);
__device__ float32 sum_type(float32);
__device__ float64 sum_type(float64);
__device__ complex64 sum_type(complex64);
__device__ complex128 sum_type(complex128);
__device__ Truth sum_type(boolean);
__device__ uint32 sum_type(int8);
__device__ uint32 sum_type(uint8);
__device__ uint32 sum_type(int16);
__device__ uint32 sum_type(uint16);
__device__ uint32 sum_type(int32);
__device__ uint32 sum_type(uint32);
__device__ Bytes sum_type(int8x4);
__device__ Bytes sum_type(uint8x4);
__device__ Bits sum_type(booleanx32);
__device__ uint64 sum_type(int64);
__device__ uint64 sum_type(uint64);

template <class T>
using Accumulator = decltype(sum_type(T{}));

__device__ __forceinline__ float32 multiply_add(float32 a, float32 b, float32 sum) { return __fmaf_ieee_rn(a, b, sum); }
__device__ __forceinline__ float64 multiply_add(float64 a, float64 b, float64 sum) { return __fma_rn(a, b, sum); }
__device__ __forceinline__ float64 negate(float64 x) { return -x; }
template <class Real>
__device__ __forceinline__ Complex<Real> multiply_add(Complex<Real> a, Complex<Real> b, Complex<Real> sum) {
    sum.re = multiply_add(a.re, b.re, sum.re);
    sum.im = multiply_add(a.re, b.im, sum.im);
    sum.re = multiply_add(negate(a.im), b.im, sum.re);
    sum.im = multiply_add(a.im, b.re, sum.im);
    return sum;
}
__device__ __forceinline__ uint32 multiply_add(uint32 a, uint32 b, uint32 sum) { return a * b + sum; }
__device__ __forceinline__ uint64 multiply_add(uint64 a, uint64 b, uint64 sum) { return a * b + sum; }
__device__ __forceinline__ Truth multiply_add(Truth a, Truth b, Truth sum) { return {sum.bit | (a.bit & b.bit)}; }

__device__ __forceinline__ Bytes multiply_add(Bytes a, Bytes b, Bytes sum) {
    return {dot_of_bytes(a.bits, b.bits, sum.bits)};
}
__device__ __forceinline__ Bits multiply_add(Bits a, Bits b, Bits sum) { return {sum.bits | (a.bits & b.bits)}; }

__device__ __forceinline__ float64 add(float64 x, float64 y) { return x + y; }
template <class Real>
__device__ __forceinline__ Complex<Real> add(Complex<Real> x, Complex<Real> y) {
    return {add(x.re, y.re), add(x.im, y.im)};
}
__device__ __forceinline__ uint32 add(uint32 x, uint32 y) { return x + y; }
__device__ __forceinline__ uint64 add(uint64 x, uint64 y) { return x + y; }
__device__ __forceinline__ Truth add(Truth x, Truth y) { return {x.bit | y.bit}; }

// The sum of the lane whose number differs in the bits of `apart`. Every lane of the warp takes part.
template <class Word>
__device__ __forceinline__ Word shuffle_xor(Word x, int apart) {
    return __shfl_xor_sync(0xffffffffu, x, apart);
}
template <class Real>
__device__ __forceinline__ Complex<Real> shuffle_xor(Complex<Real> x, int apart) {
    return {shuffle_xor(x.re, apart), shuffle_xor(x.im, apart)};
}
__device__ __forceinline__ Truth shuffle_xor(Truth x, int apart) { return {shuffle_xor(x.bit, apart)}; }

// ---- from memory into a sum and back ----

template <class A, class B>
constexpr bool SAME = false;
template <class A>
constexpr bool SAME<A, A> = true;

// A value as a type, for a function to be compiled for each.
template <bool VALUE>
struct Constant {
    static constexpr bool value = VALUE;
};

// A stored element, taken as an element of type T, ready to be multiplied.
template <class T, class Stored>
__device__ __forceinline__ Accumulator<T> to_accumulator(Stored x) {
    if constexpr (SAME<Accumulator<T>, Bytes> || SAME<Accumulator<T>, Bits>)
        return {x.bits};
    else if constexpr (SAME<T, boolean>)
        return Truth{widen(x)};
    else if constexpr (SAME<T, Stored>)
        return static_cast<Accumulator<T>>(widen(x));
    else
        return static_cast<Accumulator<T>>(widen(Cast<T>::from(widen(x))));
}

// An element as so many bits of a word.
template <int COUNT>
__device__ __forceinline__ uint32 low_bits(uint32 element) {
    return element & ((1u << COUNT) - 1);
}
template <int COUNT>
__device__ __forceinline__ uint32 low_bits(Truth element) {
    return element.bit;
}

// True where the accumulator has the very bits of the stored element, so that a copy of bytes is as good as a read.
template <class T, class Stored>
constexpr bool SAME_BITS = SAME<T, Stored> && sizeof(Stored) == sizeof(Accumulator<T>);

// A finished sum of products of type T as it is stored in C: integers wrap to T first; 16-bit floats do not round to T
// first, so that a wider C gets the whole float32 sum.
template <class T, class Stored>
__device__ __forceinline__ Stored from_accumulator(Accumulator<T> sum) {
    if constexpr (SAME<Accumulator<T>, Bytes>)
        return Cast<Stored>::from(static_cast<typename T::Element>(sum.bits));
    else if constexpr (SAME<Accumulator<T>, Bits>)
        return Cast<Stored>::from(static_cast<uint8>(sum.bits != 0));
    else if constexpr (SAME<T, boolean>)
        return Cast<Stored>::from(static_cast<uint8>(sum.bit));
    else if constexpr (SAME<T, float16> || SAME<T, bfloat16>)
        return Cast<Stored>::from(sum);
    else
        return Cast<Stored>::from(static_cast<T>(sum));
}
