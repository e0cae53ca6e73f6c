// tiledmm_wgmma_f16_64x128x64_nn
// Rendered by tiledmm 0.1.0 from wgmma.cu.j2: bm=64 bn=128 bk=64 tm=2 tn=32 pad=0 stages=7 unroll=64 min_blocks=1 wm=16 wn=128 lanes=1 triangle=0 tiles_per_block=1 cluster=1

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
#define KERNEL tiledmm_wgmma_f16_64x128x64_nn
using TA = float16;       // an element of A in memory,
using TB = float16;       // of B,
using TC = float16;       // and of C
using T = float16;        // what A's and B's elements are taken as when they are multiplied
using Sum = Accumulator<T>;   // what their products are summed in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 64;   // rows of C a cluster computes
constexpr int BN = 128;   // columns of C a cluster computes
constexpr int BK = 64;   // step along K: a line of 128 bytes
constexpr int STAGES = 7;   // tiles of A and of B in shared memory: one is multiplied while the others are on their way
constexpr int CLUSTER = 1;   // blocks that share tiles of B, one below the other
constexpr int ROWS = BM / CLUSTER;       // of C that a block computes
constexpr int CONSUMERS = ROWS / 64;     // warpgroups that multiply, 64 rows each; one more sends for tiles
constexpr int THREADS = (CONSUMERS + 1) * 128;
// clang-format on

// Hopper's asynchronous units (compute capability 9.0): the copy engine for tiles (TMA), barriers in shared memory that count
// bytes, and tensor cores that a warpgroup, four warps, starts and waits for. Inline PTX stands in this file,
// wgmma_multiply.cuh.j2, ptx.cuh and tensor_cores.cuh only.
// Source: PTX ISA, "cp.async.bulk.tensor", "mbarrier", "Asynchronous warpgroup level matrix instructions".

constexpr int WARPGROUP = 128;    // threads that start a multiplication together
constexpr int SWIZZLED = 128;     // bytes of a line of a swizzled tile; the 16-byte chunks of 8 lines change places

// How a matrix lies in memory, as the driver encodes it for the copy engine. A kernel's parameter, __grid_constant__: the
// engine reads it from there.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// ---- barriers: a phase ends when so many have arrived and all bytes that were expected are there ----

struct Barrier {
    unsigned long long state;

    __device__ __forceinline__ void init(int arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals));
    }
    // At the barrier in this place of a block of the cluster. Without .release.cluster: that would be a full fence every step.
    __device__ __forceinline__ void arrive_in(int block) {
        asm volatile(
            "{\n .reg .b32 there;\n"
            " mapa.shared::cluster.u32 there, %0, %1;\n"
            " mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(shared_address(this)),
            "r"(block)
            : "memory");
    }
    __device__ __forceinline__ void arrive_and_expect(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)), "r"(bytes) : "memory");
    }
    // Waits for the end of the phase of this parity: 0 for the first, 1 for the second, and so on in turns.
    __device__ __forceinline__ void wait(unsigned parity) {
        unsigned over = 0;
        while (!over)
            asm volatile(
                "{\n .reg .pred over;\n"
                " mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                " selp.u32 %0, 1, 0, over;\n}"
                : "=r"(over)
                : "r"(shared_address(this)), "r"(parity)
                : "memory");
    }
};

// After the barriers were initialised, before the copy engine sees them.
__device__ __forceinline__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// ---- tiles from global to shared memory ----

// Copies the box that begins at these coordinates, neighbours in memory first; outside the matrix it has zeros. The barrier
// counts its bytes.
__device__ __forceinline__ void copy_box(void* shared, const TensorMap& map, Barrier& barrier, const int (&at)[5]) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5, %6, %7 }], [%2];"
        :
        : "r"(shared_address(shared)), "l"(&map), "r"(shared_address(&barrier)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
          "r"(at[3]), "r"(at[4])
        : "memory");
}

// Copies it to the same place in every block of the cluster that has a bit in `blocks`, and each block's barrier counts.
__device__ __forceinline__ void copy_box_to(int blocks, void* shared, const TensorMap& map, Barrier& barrier, const int (&at)[5]) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, { %3, %4, %5, %6, %7 }], [%2], %8;"
        :
        : "r"(shared_address(shared)), "l"(&map), "r"(shared_address(&barrier)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
          "r"(at[3]), "r"(at[4]), "h"(static_cast<short>(blocks))
        : "memory");
}

// Copies a row from shared to global memory: a multiple of 16 bytes, to a multiple of 16. Lanes send one after the other.
__device__ __forceinline__ void send_row(void* global, const void* shared, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
}

// What this thread sent since the last call is a group.
__device__ __forceinline__ void commit_rows() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all that this thread sent was read from shared memory.
__device__ __forceinline__ void wait_for_rows() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// What this thread wrote to shared memory is there for the copy engine, once threads have met.
__device__ __forceinline__ void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- clusters: blocks that run at the same time and reach each other's shared memory ----

// Every thread of every block of the cluster is here, and sees barriers that were fenced, no more: that takes no full fence.
__device__ __forceinline__ void meet_after_fence() {
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}

// Every thread of every block of the cluster is here.
__device__ __forceinline__ void meet_in_cluster() {
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

// ---- registers that warpgroups pass on to each other ----

template <int COUNT>
__device__ __forceinline__ void give_registers() {   // keeps so many
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void take_registers() {   // has so many then
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// ---- multiplications by a warpgroup ----

// Orders what the warpgroup did with registers and shared memory before what the tensor cores do with them.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// What was started since the last call is a group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// What the tensor cores have written: the compiler must not read it before this.
__device__ __forceinline__ void hold(float& sum) { asm volatile("" : "+f"(sum)::"memory"); }
__device__ __forceinline__ void hold(unsigned& sum) { asm volatile("" : "+r"(sum)::"memory"); }

// Waits until no more than PENDING groups are on their way. `sums` are what they add to.
template <int PENDING, class Sum, int N>
__device__ __forceinline__ void wgmma_wait(Sum (&sums)[N]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
    if constexpr (PENDING == 0) {
#pragma unroll
        for (int i = 0; i < N; ++i) hold(sums[i]);
    }
}

// Where a tile lies, as a multiplication is told: lines of 128 bytes, swizzled. LEADING: bytes from 64 neighbours to the next
// 64, where a line has so many along m or n; 8 lines further is 1,024 bytes further.
template <int LEADING>
__device__ __forceinline__ unsigned long long tile_at(const void* shared) {
    constexpr unsigned long long LINES = 8 * SWIZZLED, MODE = 1;   // swizzled within 128 bytes
    return (shared_address(shared) & 0x3ffff) >> 4 | static_cast<unsigned long long>(LEADING >> 4) << 16 | (LINES >> 4) << 32 |
           MODE << 62;
}
// Tiles lie in shared memory as the matrices lie in memory, in lines of 128 bytes: where neighbours are successive k, ROWS or BN
// lines; where they are successive m or n, BK lines for every 64 of them (a slab). The copy engine swizzles them on the way.
constexpr bool A_ALONG_K = ORDER_A == Order::ROWS, B_ALONG_K = ORDER_B == Order::COLUMNS;
constexpr int LINE = SWIZZLED / sizeof(TA);            // elements
constexpr int SLAB = BK * LINE;                        // elements
constexpr int PART_B = BN / CLUSTER;                   // columns of B that a block sends for
constexpr int DEPTH = 32 / sizeof(TA);                 // steps of k of an instruction
constexpr int REGISTERS = 224, OTHERS = 56;   // of a thread that multiplies, and of one that sends
static_assert(BK == LINE, "a step along K is a line");
static_assert(B_ALONG_K || PART_B % LINE == 0, "whole slabs");

// The barriers of all stages, for every block of the cluster: a stage is full when its tiles are there, and empty when a lane of
// every warp that multiplies, in every block, says so. A warp does this that has nothing else to do.
__device__ __forceinline__ void begin_stages(Barrier (&full)[STAGES], Barrier (&empty)[STAGES]) {
    if (threadIdx.x == CONSUMERS * WARPGROUP + 32) {
        for (int stage = 0; stage < STAGES; ++stage) {
            full[stage].init(1);
            empty[stage].init(CLUSTER * CONSUMERS * 4);
        }
        fence_barriers();
    }
    if (CLUSTER > 1) meet_after_fence();
    else __syncthreads();   // the barriers are there
}

// Nobody sends to a block that has left.
__device__ __forceinline__ void leave_together() {
    if (CLUSTER > 1) meet_in_cluster();
}

// What a block computes: ROWS rows of a tile of C, and then of the next one that no other cluster takes.
struct Work {
    const Problem& p;
    int columns;   // of C in a tile
    unsigned number, count;
    BlockTile tile;

    __device__ __forceinline__ Work(const Problem& p, int columns)
        : p(p), columns(columns), number(blockIdx.x / CLUSTER), count(static_cast<unsigned>(tiles_to_compute(p))) {
        locate();
    }
    __device__ __forceinline__ bool is_left() const { return number < count; }
    __device__ __forceinline__ bool is_last() const { return number + gridDim.x / CLUSTER >= count; }
    __device__ __forceinline__ void next() {
        number += gridDim.x / CLUSTER;
        if (is_left()) locate();
    }
    __device__ __forceinline__ void locate() {
        tile = tile_of<Numbering::GROUPS>(p, number, BM, columns);
        tile.row0 += blockIdx.x % CLUSTER * ROWS;
    }
};

// A stage and how often it came round: the parity of its barriers' phases.
struct Turn {
    int stage;
    unsigned parity;

    __device__ __forceinline__ void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
};

// Sends for a part of a tile, WIDTH rows of A or columns of B from `across` on, for all of the cluster's blocks or for this one.
// `batch`: the matrix's place among those of its map.
template <bool ALONG_K, int WIDTH, int BLOCKS>
__device__ __forceinline__ void send_for(TA* part, const TensorMap& map, Barrier& barrier, long long across, long long k, const int (&batch)[3]) {
#pragma unroll
    for (int slab = 0; slab < (ALONG_K ? 1 : WIDTH / LINE); ++slab) {
        const int line = static_cast<int>(across) + slab * LINE, step = static_cast<int>(k);
        const int at[5] = {ALONG_K ? step : line, ALONG_K ? line : step, batch[2], batch[1], batch[0]};
        if constexpr (BLOCKS == 1) copy_box(part + slab * SLAB, map, barrier, at);
        else copy_box_to((1 << BLOCKS) - 1, part + slab * SLAB, map, barrier, at);
    }
}
// wgmma: Hopper's tensor cores. One warpgroup sends for tiles, the others multiply them, each at its own pace.
// Blocks of a cluster compute tiles of C below each other: each sends for a part of their tile of B, for all of them.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N), 16-bit floats and tf32 summed in float32, or 8-bit integers
// Launch    as many blocks of THREADS threads as there are SMs: a cluster computes one (BM, BN) tile of C after the other
// Shared    STAGES * BK * (ROWS + BN) * sizeof(T) and rows of C, dynamic          Barriers  two a stage
// Requires  compute capability 9.0; A and B as tensor maps: rows or columns 16-byte aligned
// Source    PTX ISA; CUTLASS, "Efficient GEMM in CUDA", "Warp specialization"
//
// Tensor cores transpose 16-bit elements on the way. Others have to lie along k in shared memory: bytes do, and so does B of tf32.
// Its A comes by registers where it does not. The copy engine rounds float32 to tf32.

constexpr int PASSES = sizeof(TC) > 2 ? sizeof(TC) / 2 : 1, PART = BN / PASSES;   // a row of C leaves in parts of at most 2 * BN bytes
struct alignas(sizeof(TC) < 16 ? 2 * sizeof(TC) : 16) Pair {
    TC left, right;
};
struct alignas(16) Row {
    Pair pair[PART / 2 + 4];   // 4 more: 8 rows, or 4 of wider elements, lie in 32 different banks
};

struct Tiles {
    T a[STAGES][ROWS * BK];
    T b[STAGES][BN * BK];
    Row c[CONSUMERS * 4][16];
    Barrier full[STAGES];    // its tiles are there
    Barrier empty[STAGES];   // they were multiplied
};

// C += A @ B for 64 rows, from shared memory. A warp has 16 of the rows, with row = lane / 4 and
// quad = lane % 4 of element (row + i / 2 % 2 * 8, i / 4 * 8 + 2 * quad + i % 2) in sums[i].
__device__ __forceinline__ void multiply(Accumulator<TA> (&sums)[64], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 { "
        "%0"
        ", %1"
        ", %2"
        ", %3"
        ", %4"
        ", %5"
        ", %6"
        ", %7"
        ", %8"
        ", %9"
        ", %10"
        ", %11"
        ", %12"
        ", %13"
        ", %14"
        ", %15"
        ", %16"
        ", %17"
        ", %18"
        ", %19"
        ", %20"
        ", %21"
        ", %22"
        ", %23"
        ", %24"
        ", %25"
        ", %26"
        ", %27"
        ", %28"
        ", %29"
        ", %30"
        ", %31"
        ", %32"
        ", %33"
        ", %34"
        ", %35"
        ", %36"
        ", %37"
        ", %38"
        ", %39"
        ", %40"
        ", %41"
        ", %42"
        ", %43"
        ", %44"
        ", %45"
        ", %46"
        ", %47"
        ", %48"
        ", %49"
        ", %50"
        ", %51"
        ", %52"
        ", %53"
        ", %54"
        ", %55"
        ", %56"
        ", %57"
        ", %58"
        ", %59"
        ", %60"
        ", %61"
        ", %62"
        ", %63"
        " }, %64, %65, 1"
        ", 1, 1, %66, %67;"
        :
        "+f"(sums[0])
        , "+f"(sums[1])
        , "+f"(sums[2])
        , "+f"(sums[3])
        , "+f"(sums[4])
        , "+f"(sums[5])
        , "+f"(sums[6])
        , "+f"(sums[7])
        , "+f"(sums[8])
        , "+f"(sums[9])
        , "+f"(sums[10])
        , "+f"(sums[11])
        , "+f"(sums[12])
        , "+f"(sums[13])
        , "+f"(sums[14])
        , "+f"(sums[15])
        , "+f"(sums[16])
        , "+f"(sums[17])
        , "+f"(sums[18])
        , "+f"(sums[19])
        , "+f"(sums[20])
        , "+f"(sums[21])
        , "+f"(sums[22])
        , "+f"(sums[23])
        , "+f"(sums[24])
        , "+f"(sums[25])
        , "+f"(sums[26])
        , "+f"(sums[27])
        , "+f"(sums[28])
        , "+f"(sums[29])
        , "+f"(sums[30])
        , "+f"(sums[31])
        , "+f"(sums[32])
        , "+f"(sums[33])
        , "+f"(sums[34])
        , "+f"(sums[35])
        , "+f"(sums[36])
        , "+f"(sums[37])
        , "+f"(sums[38])
        , "+f"(sums[39])
        , "+f"(sums[40])
        , "+f"(sums[41])
        , "+f"(sums[42])
        , "+f"(sums[43])
        , "+f"(sums[44])
        , "+f"(sums[45])
        , "+f"(sums[46])
        , "+f"(sums[47])
        , "+f"(sums[48])
        , "+f"(sums[49])
        , "+f"(sums[50])
        , "+f"(sums[51])
        , "+f"(sums[52])
        , "+f"(sums[53])
        , "+f"(sums[54])
        , "+f"(sums[55])
        , "+f"(sums[56])
        , "+f"(sums[57])
        , "+f"(sums[58])
        , "+f"(sums[59])
        , "+f"(sums[60])
        , "+f"(sums[61])
        , "+f"(sums[62])
        , "+f"(sums[63])
        : "l"(a), "l"(b), "n"(A_ALONG_K ? 0 : 1), "n"(B_ALONG_K ? 0 : 1));
}
// C = A @ B for 64 rows, from shared memory. A warp has 16 of the rows, with row = lane / 4 and
// quad = lane % 4 of element (row + i / 2 % 2 * 8, i / 4 * 8 + 2 * quad + i % 2) in sums[i].
__device__ __forceinline__ void multiply_afresh(Accumulator<TA> (&sums)[64], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 { "
        "%0"
        ", %1"
        ", %2"
        ", %3"
        ", %4"
        ", %5"
        ", %6"
        ", %7"
        ", %8"
        ", %9"
        ", %10"
        ", %11"
        ", %12"
        ", %13"
        ", %14"
        ", %15"
        ", %16"
        ", %17"
        ", %18"
        ", %19"
        ", %20"
        ", %21"
        ", %22"
        ", %23"
        ", %24"
        ", %25"
        ", %26"
        ", %27"
        ", %28"
        ", %29"
        ", %30"
        ", %31"
        ", %32"
        ", %33"
        ", %34"
        ", %35"
        ", %36"
        ", %37"
        ", %38"
        ", %39"
        ", %40"
        ", %41"
        ", %42"
        ", %43"
        ", %44"
        ", %45"
        ", %46"
        ", %47"
        ", %48"
        ", %49"
        ", %50"
        ", %51"
        ", %52"
        ", %53"
        ", %54"
        ", %55"
        ", %56"
        ", %57"
        ", %58"
        ", %59"
        ", %60"
        ", %61"
        ", %62"
        ", %63"
        " }, %64, %65, 0"
        ", 1, 1, %66, %67;"
        :
        "=f"(sums[0])
        , "=f"(sums[1])
        , "=f"(sums[2])
        , "=f"(sums[3])
        , "=f"(sums[4])
        , "=f"(sums[5])
        , "=f"(sums[6])
        , "=f"(sums[7])
        , "=f"(sums[8])
        , "=f"(sums[9])
        , "=f"(sums[10])
        , "=f"(sums[11])
        , "=f"(sums[12])
        , "=f"(sums[13])
        , "=f"(sums[14])
        , "=f"(sums[15])
        , "=f"(sums[16])
        , "=f"(sums[17])
        , "=f"(sums[18])
        , "=f"(sums[19])
        , "=f"(sums[20])
        , "=f"(sums[21])
        , "=f"(sums[22])
        , "=f"(sums[23])
        , "=f"(sums[24])
        , "=f"(sums[25])
        , "=f"(sums[26])
        , "=f"(sums[27])
        , "=f"(sums[28])
        , "=f"(sums[29])
        , "=f"(sums[30])
        , "=f"(sums[31])
        , "=f"(sums[32])
        , "=f"(sums[33])
        , "=f"(sums[34])
        , "=f"(sums[35])
        , "=f"(sums[36])
        , "=f"(sums[37])
        , "=f"(sums[38])
        , "=f"(sums[39])
        , "=f"(sums[40])
        , "=f"(sums[41])
        , "=f"(sums[42])
        , "=f"(sums[43])
        , "=f"(sums[44])
        , "=f"(sums[45])
        , "=f"(sums[46])
        , "=f"(sums[47])
        , "=f"(sums[48])
        , "=f"(sums[49])
        , "=f"(sums[50])
        , "=f"(sums[51])
        , "=f"(sums[52])
        , "=f"(sums[53])
        , "=f"(sums[54])
        , "=f"(sums[55])
        , "=f"(sums[56])
        , "=f"(sums[57])
        , "=f"(sums[58])
        , "=f"(sums[59])
        , "=f"(sums[60])
        , "=f"(sums[61])
        , "=f"(sums[62])
        , "=f"(sums[63])
        : "l"(a), "l"(b), "n"(A_ALONG_K ? 0 : 1), "n"(B_ALONG_K ? 0 : 1));
}
__device__ __forceinline__ int row_of(int warp, int row) { return warp * 16 + row; }
// A product's place in the batch, as an operand's map has it: 0 where it is broadcast.
__device__ __forceinline__ void in_map(int (&at)[3], const Strides& strides, const Place& place) {
#pragma unroll
    for (int i = 0; i < 3; ++i) at[i] = strides.batch[i] ? static_cast<int>(place.at[i]) : 0;
}

// A row of C on its way out.
struct Sending {
    TC* to;
    const Row* from;
    int bytes;

    __device__ __forceinline__ void send() {   // unless it has been sent
        if (bytes > 0) {
            send_row(to, from, bytes);
            commit_rows();
        }
        bytes = 0;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    KERNEL(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, TC* __restrict__ c,
           const __grid_constant__ Problem p) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(memory);
    const int warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const int place = blockIdx.x % CLUSTER;   // of this block in its cluster
    Work work(p, BN);   // the first tile is found while barriers are initialised
    begin_stages(tiles.full, tiles.empty);
    Turn turn = {0, 0};
    if (warpgroup == CONSUMERS) {
        give_registers<OTHERS>();
        for (; thread == 0 && work.is_left(); work.next()) {
            const BlockTile& tile = work.tile;
            int in_a[3], in_b[3];
            in_map(in_a, p.a, tile.place);
            in_map(in_b, p.b, tile.place);
            for (int k = 0; k < tile.k; k += BK, turn.next()) {
                Barrier& full = tiles.full[turn.stage];
                tiles.empty[turn.stage].wait(turn.parity ^ 1);   // the first time round it is
                full.arrive_and_expect((ROWS + BN) * BK * sizeof(T));
                send_for<A_ALONG_K, ROWS, 1>(tiles.a[turn.stage], a_map, full, tile.row0, tile.k0 + k, in_a);
                send_for<B_ALONG_K, PART_B, CLUSTER>(tiles.b[turn.stage] + place * PART_B * BK, b_map, full, tile.col0 + place * PART_B,
                                                     tile.k0 + k, in_b);
            }
        }
    } else {
        take_registers<REGISTERS>();
        const int warp = threadIdx.x / 32, lane = thread % 32;
        Sending row = {};   // that this lane has yet to send
        for (; work.is_left(); work.next()) {
            const BlockTile& tile = work.tile;

            // mainloop
            Sum sums[BN / 2] = {};
            int last = -1;   // the stage that is multiplied while the next one is started
            for (int k = 0; k < tile.k; k += BK, turn.next()) {
                tiles.full[turn.stage].wait(turn.parity);
                const T* const b = tiles.b[turn.stage];
                const T* const a = tiles.a[turn.stage] + warpgroup * (64 * BK);
                wgmma_fence();
#pragma unroll
                for (int kk = 0; kk < BK; kk += DEPTH)
                    multiply(sums, tile_at<SLAB * sizeof(T)>(a + (A_ALONG_K ? kk : kk * LINE)),
                             tile_at<SLAB * sizeof(T)>(b + (B_ALONG_K ? kk : kk * LINE)));
                wgmma_commit();
                if (k / BK == lane) row.send();   // of the last tile: one a step, or copies would wait behind all at once
                wgmma_wait<1>(sums);
                if (last >= 0 && lane < CLUSTER) tiles.empty[last].arrive_in(lane);
                last = turn.stage;
            }
            wgmma_wait<0>(sums);
            if (last >= 0 && lane < CLUSTER) tiles.empty[last].arrive_in(lane);
            // epilogue: a warp's 16 rows of C gather in shared memory, and leave from there while the next tile is multiplied
            const auto c_tile = result_tile<T>(c, p, tile, ROWS, BN);   // (ROWS, BN)
            row.send();
            if (c_tile.is_aligned(16) && c_tile.cols * sizeof(TC) % 16 == 0) {
                Row* const rows = tiles.c[warp];
#pragma unroll
                for (int pass = 0; pass < PASSES; ++pass) {
                    wait_for_rows();
                    __syncwarp();   // the last rows have left
#pragma unroll
                    for (int j = 0; j < PART / 8; ++j)
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            const Sum* const pair = &sums[(pass * PART / 8 + j) * 4 + half * 2];
                            rows[lane / 4 + half * 8].pair[j * 4 + lane % 4] = {from_accumulator<T, TC>(pair[0]),
                                                                               from_accumulator<T, TC>(pair[1])};
                        }
                    fence_shared();
                    __syncwarp();   // these rows are complete
                    const int width = c_tile.cols - pass * PART < PART ? c_tile.cols - pass * PART : PART;
                    TC* const to = c_tile.data + pass * PART;
                    if (work.is_last()) {   // nothing is multiplied meanwhile, and the warp itself is done sooner
                        constexpr int CHUNK = 16 / sizeof(TC), CHUNKS = PART / CHUNK;   // of a row
                        constexpr int LANES = CHUNKS & -CHUNKS;   // that share it: a power of two of them
#pragma unroll
                        for (int first = 0; first < CHUNKS; first += LANES) {
                            const int col = (first + lane % LANES) * CHUNK;
#pragma unroll sizeof(TC) < 16 ? 16 : 8   // of complex128, all laid out would not fit in registers
                            for (int line = lane / LANES; line < 16; line += 32 / LANES) {
                                const int i = row_of(warp, line);
                                if (i < c_tile.rows && col < width)
                                    *reinterpret_cast<int4*>(to + i * c_tile.row_stride + col) =
                                        *reinterpret_cast<const int4*>(reinterpret_cast<const TC*>(&rows[line]) + col);
                            }
                        }
                    } else {
                        const int i = row_of(warp, lane);
                        if (lane < 16 && i < c_tile.rows && width > 0)
                            row = {to + i * c_tile.row_stride, &rows[lane], width * static_cast<int>(sizeof(TC))};
                        if (pass + 1 < PASSES) row.send();
                    }
                }
            } else {
#pragma unroll
                for (int j = 0; j < BN / 8; ++j)
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        c_tile.template write_row<2>(row_of(warp, lane / 4 + half * 8), j * 8 + lane % 4 * 2, &sums[j * 4 + half * 2]);
            }
        }
        row.send();
        wait_for_rows();   // shared memory is theirs until then
    }
    leave_together();
}
