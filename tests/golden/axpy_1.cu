// tiledmm_axpy_f32_1x32x64_nn
// Rendered by tiledmm 0.1.0 from axpy.cu.j2: bm=1 bn=32 bk=64 tm=1 tn=4 pad=0 stages=0 unroll=8 min_blocks=2 wm=0 wn=0 lanes=64 triangle=0 tiles_per_block=1 cluster=1

// The instructions that C++ cannot say, or that the compiler's flags would change. Inline PTX stands in this file only.
//
// CuPy compiles with -ftz=true, under which plain C++ float arithmetic and float conversions flush subnormals to zero.
// cuBLAS keeps them, and so do these functions: inline PTX and the *_ieee_* intrinsics are not touched by the flag.

#if __CUDA_ARCH__ >= 800
#define TILEDMM_CP_ASYNC 1   // global to shared memory without a stop in registers: compute capability 8.0
#else
#define TILEDMM_CP_ASYNC 0
#endif

// Threads that an SM holds at a time.
#if __CUDA_ARCH__ == 750
#define TILEDMM_SM_THREADS 1024
#elif __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
#define TILEDMM_SM_THREADS 1536
#else
#define TILEDMM_SM_THREADS 2048
#endif

#ifndef TILEDMM_SIMULATOR   // which has functions of these names for a CPU: tiledmm/simulator/native/ptx.h

// ---- conversions between the floating-point types, subnormals kept, rounded to nearest even ----

__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;   // NaN
    return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

__device__ __forceinline__ unsigned short double_to_half(double value) {
    unsigned short bits;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(value));
    return bits;
}

__device__ __forceinline__ double float_to_double(float value) {
    double wide;
    asm("cvt.f64.f32 %0, %1;" : "=d"(wide) : "f"(value));
    return wide;
}

__device__ __forceinline__ float double_to_float(double value) {
    float narrow;
    asm("cvt.rn.f32.f64 %0, %1;" : "=f"(narrow) : "d"(value));
    return narrow;
}

__device__ __forceinline__ float add(float x, float y) {
    float sum;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(x), "f"(y));
    return sum;
}

__device__ __forceinline__ float negate(float x) {
    float negative;
    asm("neg.f32 %0, %1;" : "=f"(negative) : "f"(x));
    return negative;
}

// The sum and four products of bytes, modulo 2^32.
__device__ __forceinline__ unsigned dot_of_bytes(unsigned a, unsigned b, unsigned sum) {
    asm("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

// ---- wide stores ----

// Writes neighbours to global memory, at a multiple of their size, up to 16 bytes at a time. Left to itself, the compiler
// writes them one by one: a kernel that may also have to write single elements, at edges, gets no wide stores.
//
// A wide store takes registers that lie side by side. Asked for the sums' own, the compiler keeps these so from the start,
// and then finds no places for them that are free of register bank conflicts in the mainloop. So the words are new values:
// 0 is added to them, which the compiler does not know to be 0.
template <class T>
__device__ __forceinline__ void store(T* global, const T& neighbours) {
    if constexpr (sizeof(T) % 8 == 0) {
        constexpr int WORDS = sizeof(T) / 4;
        const unsigned zero = blockIdx.z;   // no grid here has a third dimension
        unsigned* const to = reinterpret_cast<unsigned*>(__cvta_generic_to_global(global));
        unsigned words[WORDS];
#pragma unroll
        for (int w = 0; w < WORDS; ++w) words[w] = reinterpret_cast<const unsigned*>(&neighbours)[w] + zero;
        if constexpr (WORDS == 2) {
            asm volatile("st.global.v2.b32 [%0], { %1, %2 };" : : "l"(to), "r"(words[0]), "r"(words[1]) : "memory");
        } else {
#pragma unroll
            for (int w = 0; w < WORDS; w += 4)
                asm volatile("st.global.v4.b32 [%0], { %1, %2, %3, %4 };"
                             :
                             : "l"(to + w), "r"(words[w]), "r"(words[w + 1]), "r"(words[w + 2]), "r"(words[w + 3])
                             : "memory");
        }
    } else {
        *global = neighbours;
    }
}

// ---- asynchronous copies ----

// Copies `source_bytes` from global to shared memory, without waiting, and zeros up to BYTES.
template <int BYTES>
__device__ __forceinline__ void cp_async(void* shared, const void* global, int source_bytes) {
    const unsigned destination = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :
                 : "r"(destination), "l"(global), "n"(BYTES), "r"(source_bytes)
                 : "memory");
}

__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What was copied since the last call is a group.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until no more than PENDING groups are on their way.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#endif

// ---- elements copied from global to shared memory ----

// Starts copying one element of 4, 8 or 16 bytes; where `valid` is false nothing is read and zeros are written.
template <class T>
__device__ __forceinline__ void copy_async(T* shared, const T* global, bool valid) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "cp.async moves 4, 8 or 16 bytes");
#if TILEDMM_CP_ASYNC
    cp_async<sizeof(T)>(shared, global, valid ? sizeof(T) : 0);
#else
    *shared = valid ? *global : T{};
#endif
}

// Starts copying `count` of N elements, which are 16 bytes at a multiple of 16, and writes zeros for the others.
template <int N, class T>
__device__ __forceinline__ void copy_async(T* shared, const T* global, int count) {
    static_assert(N * sizeof(T) == 16, "a whole vector");
#if TILEDMM_CP_ASYNC
    cp_async<16>(shared, global, count * static_cast<int>(sizeof(T)));
#else
    for (int i = 0; i < N; ++i) shared[i] = i < count ? global[i] : T{};
#endif
}

// The copies that this thread started since the last call are a group.
__device__ __forceinline__ void commit_copies() {
#if TILEDMM_CP_ASYNC
    cp_async_commit();
#endif
}

// Waits until no more than PENDING of this thread's groups of copies are on their way.
template <int PENDING>
__device__ __forceinline__ void wait_for_copies() {
#if TILEDMM_CP_ASYNC
    cp_async_wait<PENDING>();
#endif
}

// Waits until every copy this thread started has landed. Other threads see them after the next barrier.
__device__ __forceinline__ void wait_for_copies() {
#if TILEDMM_CP_ASYNC
    cp_async_wait_all();
#endif
}
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
// Where the elements lie: sizes, strides, edges and batches. Every kernel goes through here to reach memory, so that
// its own page is about its idea.

// How an operand lies in memory. ROWS: elements of a row are neighbours. COLUMNS: elements of a column are.
// STRIDED: neither (a slice with a step, a reversed or broadcast axis).
enum class Order { ROWS, COLUMNS, STRIDED };

struct Strides {   // in elements; may be negative or zero
    long long row, col, batch[3];
};

// One batched product, as the host describes it.
struct Problem {
    long long m, n, k;            // A (m, k)   B (k, n)   C (m, n)
    long long tiles_m, tiles_n;   // tiles that cover C's rows and columns,
    long long tiles;              // and those that are computed, of all slices and products
    long long group;              // columns of tiles that are numbered together
    long long slices, slice_k;    // parts that K is cut into, each summed by blocks of its own, and steps of k in each
    long long slice_c;            // elements from where one slice's sums are written to where the next's are
    long long batch[3];           // products, slowest first
    Strides a, b, c;
};

// 64-bit division is a long routine on a GPU; most quotients here are plain to see, or fit 32 bits.
__device__ __forceinline__ long long divide(long long dividend, long long divisor) {
    if (divisor == 1) return dividend;
    if (dividend < divisor) return 0;
    if ((static_cast<unsigned long long>(dividend | divisor) >> 32) == 0)
        return static_cast<unsigned>(dividend) / static_cast<unsigned>(divisor);
    return dividend / divisor;
}

// A product's place in each dimension of the batch, slowest first.
struct Place {
    long long at[3];

    // How far its matrix is from the first one's, in elements.
    __device__ __forceinline__ long long offset(const Strides& strides) const {
        return at[0] * strides.batch[0] + at[1] * strides.batch[1] + at[2] * strides.batch[2];
    }
};

__device__ __forceinline__ Place place_of(const Problem& p, unsigned product) {
    const unsigned middle = static_cast<unsigned>(p.batch[1]), fast = static_cast<unsigned>(p.batch[2]);
    const unsigned slow = product / fast, i0 = slow / middle;
    return {i0, slow - i0 * middle, product - slow * fast};
}

// The part of the problem that one block computes.
struct BlockTile {
    long long row0, col0;   // its first row and column of C
    long long k0, k;        // the first step of k and how many it sums: all, or a slice of them; at most 2^30
    long long a0, b0, c0;   // where its matrices begin, in elements
    unsigned product;       // which one of the batch,
    Place place;            // and its place there
    bool exists;            // false where a block has room for more tiles, or another kernel computes them

    // The tile on the other side of C's diagonal.
    __device__ __forceinline__ BlockTile transposed() const { return {col0, row0, k0, k, a0, b0, c0, product, place, exists}; }
};

// The order in which tiles are numbered. COLUMNS: down C's columns, then along its rows. Blocks that run at the same time share a
// strip of B. GROUPS: along the rows of p.group columns, from row to row, then through the next columns. They share strips of A,
// too: they read least where they cover as many rows of C as columns. TRIANGLE: tiles on and below C's diagonal alone. Two rows
// have as many together as there are tiles in a row, the longest with the shortest: one pair after the other.
// Then come the product's other slices of K, and then the next product.
enum class Numbering { COLUMNS, GROUPS, TRIANGLE };

// The tile of this number. A launch has fewer than 2^31.
template <Numbering NUMBERING>
__device__ __forceinline__ BlockTile tile_of(const Problem& p, unsigned number, int bm, int bn) {
    const unsigned rows = static_cast<unsigned>(p.tiles_m), cols = static_cast<unsigned>(p.tiles_n);
    const unsigned tiles = NUMBERING == Numbering::TRIANGLE ? rows * (rows + 1) / 2 : rows * cols;   // of one product
    unsigned product = number / tiles, row, col;
    const unsigned index = number - product * tiles;
    if constexpr (NUMBERING == Numbering::COLUMNS) {
        col = index / rows;
        row = index - col * rows;
    } else if constexpr (NUMBERING == Numbering::GROUPS) {
        const unsigned group = static_cast<unsigned>(p.group), first = index / (rows * group) * group;
        const unsigned width = cols - first < group ? cols - first : group, in_group = index - first * rows;
        row = in_group / width;
        col = first + in_group - row * width;
    } else {
        const unsigned odd = rows % 2, pair = index / (rows + 1 - odd), in_pair = index - pair * (rows + 1 - odd);
        const bool longer = in_pair < rows - pair;
        row = longer ? rows - 1 - pair : pair - odd;
        col = longer ? in_pair : in_pair - (rows - pair);
    }

    BlockTile tile = {};
    tile.k = p.k;
    if (p.slices > 1) {
        const unsigned slices = static_cast<unsigned>(p.slices), part = product;
        product = part / slices;
        const long long slice = part - product * slices;
        tile.k0 = slice * p.slice_k;
        tile.k = p.k - tile.k0 < p.slice_k ? p.k - tile.k0 : p.slice_k;
        tile.a0 = tile.k0 * p.a.col;
        tile.b0 = tile.k0 * p.b.row;
        tile.c0 = slice * p.slice_c;
    }
    if (product > 0) {
        tile.product = product;
        tile.place = place_of(p, product);
        tile.a0 += tile.place.offset(p.a);
        tile.b0 += tile.place.offset(p.b);
        tile.c0 += tile.place.offset(p.c);
    }
    tile.row0 = static_cast<long long>(row) * bm;
    tile.col0 = static_cast<long long>(col) * bn;
    return tile;
}

// How many tiles a launch computes.
__device__ __forceinline__ long long tiles_to_compute(const Problem& p) {
    return p.tiles;
}

// This block's tile, or that of another number.
template <Numbering NUMBERING = Numbering::COLUMNS>
__device__ __forceinline__ BlockTile locate_block(const Problem& p, int bm, int bn, unsigned number = blockIdx.x) {
    BlockTile tile = tile_of<NUMBERING>(p, number, bm, bn);
    tile.exists = number < tiles_to_compute(p);
    return tile;
}

// How many of `size` rows or columns from `first` on lie inside a matrix that has `extent` of them.
__device__ __forceinline__ int inside(long long extent, long long first, int size) {
    const long long left = extent - first;
    return left < size ? static_cast<int>(left) : size;
}

// The order of a matrix, transposed.
template <Order ORDER>
constexpr Order TRANSPOSED = ORDER == Order::ROWS      ? Order::COLUMNS
                             : ORDER == Order::COLUMNS ? Order::ROWS
                                                       : ORDER;

// A part of a matrix that is read, seen from its own element (0, 0); `rows` and `cols` from there on may be used. Elements
// are `Stored` in memory and come out as accumulators of products of type T.
template <class T, class Stored, Order ORDER>
struct View {
    const Stored* data;   // element (0, 0)
    int rows, cols;       // zero or negative: nothing of it lies inside
    long long row_stride, col_stride;

    __device__ __forceinline__ const Stored* address(int row, int col) const {
        if constexpr (ORDER == Order::ROWS) return data + row * row_stride + col;
        if constexpr (ORDER == Order::COLUMNS) return data + row + col * col_stride;
        return data + row * row_stride + col * col_stride;
    }

    // The same part, seen from (row, col).
    __device__ __forceinline__ View from(int row, int col) const {
        return {address(row, col), rows - row, cols - col, row_stride, col_stride};
    }

    // The same part of the transposed matrix.
    __device__ __forceinline__ View<T, Stored, TRANSPOSED<ORDER>> transposed() const {
        return {data, cols, rows, col_stride, row_stride};
    }

    // Whether each row (or column, where elements of a column are neighbours) begins at a multiple of so many bytes.
    __device__ __forceinline__ bool is_aligned(int bytes) const {
        if constexpr (ORDER == Order::STRIDED) return false;
        const long long stride = ORDER == Order::ROWS ? row_stride : col_stride;
        return (reinterpret_cast<long long>(data) | stride * static_cast<long long>(sizeof(Stored))) % bytes == 0;
    }

    // Moves on over the matrix. How much may be used from there is for the caller to say.
    __device__ __forceinline__ void move(int down, int right) { data = address(down, right); }

    // The element at (row, col), or zero beyond the edge, which adds nothing to any sum.
    __device__ __forceinline__ Accumulator<T> read_or_zero(int row, int col) const {
        return row < rows && col < cols ? to_accumulator<T>(*address(row, col)) : Accumulator<T>{};
    }

    // N neighbours from (row, col) on, as they lie in memory, at a multiple of their size: all are inside, or none.
    template <int N>
    __device__ __forceinline__ void read_or_zero(Accumulator<T>* values, int row, int col) const {
        struct alignas(N * sizeof(Stored)) Neighbours {
            Stored element[N];
        };
        Neighbours neighbours = {};
        if (row < rows && col < cols) neighbours = *reinterpret_cast<const Neighbours*>(address(row, col));
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = to_accumulator<T>(neighbours.element[i]);
    }

    // The same, copied to shared memory without waiting for it to arrive: see wait_for_copies().
    __device__ __forceinline__ void copy_or_zero(Accumulator<T>* shared, int row, int col) const {
        copy_async(reinterpret_cast<Stored*>(shared), address(row, col), row < rows && col < cols);
    }

    // N elements of a column, from (row, col) on.
    template <int N>
    __device__ __forceinline__ void copy_column_or_zero(void* shared, int row, int col) const {
        const int left = rows - row;
        const int count = col < cols && left > 0 ? left < N ? left : N : 0;
        copy_async<N>(static_cast<Stored*>(shared), address(row, col), count);
    }
};

// A matrix that is read.
template <class T, class Stored, Order ORDER>
struct Matrix {
    const Stored* data;
    long long rows, cols, row_stride, col_stride;

    __device__ __forceinline__ const Stored* address(long long row, long long col) const {
        if constexpr (ORDER == Order::ROWS) return data + row * row_stride + col;
        if constexpr (ORDER == Order::COLUMNS) return data + row + col * col_stride;
        return data + row * row_stride + col * col_stride;
    }

    // The element at (row, col), which must be inside.
    __device__ __forceinline__ Accumulator<T> read(long long row, long long col) const {
        return to_accumulator<T>(*address(row, col));
    }

    // The tile of (height, width) elements that begins at (row, col), which must be inside.
    __device__ __forceinline__ View<T, Stored, ORDER> tile(long long row, long long col, int height, int width) const {
        return {address(row, col), inside(rows, row, height), inside(cols, col, width), row_stride, col_stride};
    }
};

template <class T, Order ORDER, class Stored>
__device__ __forceinline__ Matrix<T, Stored, ORDER> matrix(const Stored* data, long long rows, long long cols,
                                                           const Strides& strides) {
    return {data, rows, cols, strides.row, strides.col};
}

// The tile of C that a block writes; what lies beyond the edge is dropped.
template <class T, class Stored>
struct ResultTile {
    Stored* data;   // its element (0, 0)
    int rows, cols;
    long long row_stride, col_stride;

    // The same tile of the transposed matrix.
    __device__ __forceinline__ ResultTile transposed() const { return {data, cols, rows, col_stride, row_stride}; }

    __device__ __forceinline__ void write(int row, int col, Accumulator<T> sum) const {
        if (row < rows && col < cols) data[row * row_stride + col * col_stride] = from_accumulator<T, Stored>(sum);
    }

    // Whether elements of a row are neighbours, and each row begins at a multiple of so many bytes.
    __device__ __forceinline__ bool is_aligned(int bytes) const {
        return col_stride == 1 &&
               (reinterpret_cast<long long>(data) | row_stride * static_cast<long long>(sizeof(Stored))) % bytes == 0;
    }

    // N neighbours in a row: one access where they lie side by side, at a multiple of their size.
    template <int N>
    __device__ __forceinline__ void write_row(int row, int col, const Accumulator<T>* sums) const {
        const Stored* const first = data + row * row_stride + col * col_stride;
        if (row < rows && col + N <= cols && col_stride == 1 &&
            reinterpret_cast<unsigned long long>(first) % (N * sizeof(Stored)) == 0) {
            write_neighbours<N>(row, col, sums);
        } else {
#pragma unroll
            for (int i = 0; i < N; ++i) write(row, col + i, sums[i]);
        }
    }

    // The same where it is known that all of them are inside, side by side, at a multiple of their size.
    template <int N>
    __device__ __forceinline__ void write_neighbours(int row, int col, const Accumulator<T>* sums) const {
        struct alignas(N * sizeof(Stored)) Neighbours {
            Stored element[N];
        };
        Neighbours neighbours;
#pragma unroll
        for (int i = 0; i < N; ++i) neighbours.element[i] = from_accumulator<T, Stored>(sums[i]);
        store(reinterpret_cast<Neighbours*>(data + row * row_stride + col), neighbours);
    }
};

// So many elements and those behind them up to a multiple of 16 bytes.
template <class Stored>
__device__ __forceinline__ int whole_vectors(int count) {
    constexpr int N = sizeof(Stored) < 16 ? 16 / sizeof(Stored) : 1;
    return (count + N - 1) / N * N;
}

// Block's tile of (height, width) elements of C.
template <class T, class Stored>
__device__ __forceinline__ ResultTile<T, Stored> result_tile(Stored* data, const Problem& p, const BlockTile& block,
                                                             int height, int width) {
    return {data + block.c0 + block.row0 * p.c.row + block.col0 * p.c.col, inside(p.m, block.row0, height),
            inside(p.n, block.col0, width), p.c.row, p.c.col};
}
// clang-format off
#define KERNEL tiledmm_axpy_f32_1x32x64_nn
using TA = float32;       // an element of A in memory,
using TB = float32;       // of B,
using TC = float32;       // and of C
using T = float32;        // what A's and B's elements are taken as when they are multiplied
using Sum = Accumulator<T>;   // what their products are summed in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 1;   // rows of C a block computes
constexpr int BN = 32;   // columns of C a block computes: of a row of B up to 128 bytes
constexpr int BK = 64;   // step along K: rows of B that a block reads at a time, each by threads of its own
constexpr int V = 4;   // neighbours in a row that a thread reads, and columns that it sums
constexpr int UNROLL = 8;   // steps along K whose loads are in flight together
constexpr int LANES_N = BN / V;   // threads side by side along a row
constexpr int THREADS = LANES_N * BK;
constexpr int WARPS = THREADS / 32;
// clang-format on

// axpy: a row of C is a sum of B's rows, each times an element of A (BLAS: y = a x + y). For a C of few rows.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of THREADS threads a (BM, BN) tile of C          Shared  WARPS * BM * BN * sizeof(Sum)          Barriers  1
// Requires  nothing; fast where B's rows are contiguous
// Source    Lawson et al., "Basic Linear Algebra Subprograms for Fortran Usage" (1979)
//
// A vector times a matrix reads each element of B once, so all that counts is to have enough loads in flight. A block has few
// columns, so that there are blocks for all SMs, and all of K: it reads BK rows at a time, and each thread keeps sums of its own
// columns over every BK-th row. What the threads of a column have is added up at the end, in the block: blocks that share K
// would need a second launch for that.
static_assert(32 % LANES_N == 0 && THREADS % 32 == 0, "lanes of a warp read whole rows of the tile");

// Adds rows of B, each times elements of A: `row`, row + BK, and so on, `steps` in all, in columns from `col` on. INSIDE: all is
// inside the matrices but rows of A, of which the last one stands for those beyond; and V columns are read at once.
template <bool INSIDE, class ViewA, class ViewB>
__device__ __forceinline__ void add_rows(ViewA a_view, ViewB b_view, long long steps, int row, int col, Sum (&acc)[BM][V]) {
    const int last = a_view.rows - 1;
    if (INSIDE) a_view.rows = a_view.cols = b_view.rows = b_view.cols = 1 << 30;   // nothing to compare
#pragma unroll INSIDE ? UNROLL : 1
    for (long long step = 0; step < steps; ++step) {
        Sum frag_a[BM], frag_b[V];
        if constexpr (INSIDE)
            b_view.template read_or_zero<V>(frag_b, row, col);
        else
#pragma unroll
            for (int v = 0; v < V; ++v) frag_b[v] = b_view.read_or_zero(row, col + v);
#pragma unroll
        for (int i = 0; i < BM; ++i) frag_a[i] = a_view.read_or_zero(INSIDE && i > last ? last : i, row);
#pragma unroll
        for (int i = 0; i < BM; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v) acc[i][v] = multiply_add(frag_a[i], frag_b[v], acc[i][v]);
        a_view.move(0, BK);
        b_view.move(BK, 0);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    const BlockTile block = locate_block(p, BM, BN);
    const auto A = matrix<T, ORDER_A>(a + block.a0, p.m, block.k, p.a);
    const auto B = matrix<T, ORDER_B>(b + block.b0, block.k, p.n, p.b);
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);
    auto a_view = A.tile(block.row0, 0, BM, BK);   // (BM, BK)
    auto b_view = B.tile(0, block.col0, BK, BN);   // (BK, BN)

    const int row = threadIdx.x / LANES_N, col = threadIdx.x % LANES_N * V;   // this thread's first row and columns of B
    const bool wide = ORDER_B == Order::ROWS && p.n % V == 0 && b_view.is_aligned(V * sizeof(TB));
    const long long steps = block.k / BK;   // in which all rows are inside
    Sum acc[BM][V] = {};
    a_view.cols = b_view.rows = BK;
    if (!wide) add_rows<false>(a_view, b_view, steps, row, col, acc);
    else if (col < b_view.cols) add_rows<true>(a_view, b_view, steps, row, col, acc);
    if (steps * BK < block.k)   // what is left of k
        add_rows<false>(A.tile(block.row0, steps * BK, BM, BK), B.tile(steps * BK, block.col0, BK, BN), 1, row, col, acc);

    __shared__ Sum sums[WARPS][BM][BN];   // that each warp has
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < BM; ++i)
#pragma unroll
        for (int v = 0; v < V; ++v) {
#pragma unroll
            for (int apart = 16; apart >= LANES_N; apart /= 2) acc[i][v] = add(acc[i][v], shuffle_xor(acc[i][v], apart));
            if (lane < LANES_N) sums[warp][i][col + v] = acc[i][v];
        }
    __syncthreads();   // every warp's sums are there before they are added
    for (int number = threadIdx.x; number < BM * BN; number += THREADS) {
        const int i = number / BN, j = number % BN;
        Sum sum = sums[0][i][j];
#pragma unroll
        for (int other = 1; other < WARPS; ++other) sum = add(sum, sums[other][i][j]);
        c_tile.write(i, j, sum);
    }
}
