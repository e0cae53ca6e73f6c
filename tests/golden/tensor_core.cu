// tiledmm_tensor_core_f16_128x128x32_nn
// Rendered by tiledmm 0.1.0 from tensor_core.cu.j2: bm=128 bn=128 bk=32 tm=8 tn=8 pad=0 stages=3 unroll=32 min_blocks=2 wm=64 wn=32 lanes=1 triangle=0 tiles_per_block=1 cluster=1

#if __CUDA_ARCH__ >= 800
#define TILEDMM_CP_ASYNC 1   // global to shared memory without a stop in registers: compute capability 8.0
#else
#define TILEDMM_CP_ASYNC 0
#endif

#ifndef TILEDMM_SIMULATOR   // which has functions of these names for a CPU: tiledmm/simulator/native/ptx.h

// Writes contiguous elements to global memory, at a multiple of their size, up to 16 bytes at a time. The compiler would write
// them one by one where a kernel may also have to write single elements. Vector stores take consecutive registers: those of the
// sums themselves would then conflict in the mainloop (register banks). So 0 is added, which the compiler does not know to be 0.
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
                asm volatile("st.global.v4.b32 [%0], { %1, %2, %3, %4 };" ::"l"(to + w), "r"(words[w]), "r"(words[w + 1]),
                             "r"(words[w + 2]), "r"(words[w + 3])
                             : "memory");
        }
    } else {
        *global = neighbours;
    }
}

// Copies `source_bytes` from global to shared memory asynchronously, and zeros up to BYTES.
template <int BYTES>
__device__ __forceinline__ void cp_async(void* shared, const void* global, int source_bytes) {
    const unsigned destination = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :
                 : "r"(destination), "l"(global), "n"(BYTES), "r"(source_bytes)
                 : "memory");
}

// What was copied since the last call is a group.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until no more than PENDING groups are in flight.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// ---- conversions and arithmetic in which subnormals are kept, rounded to nearest even. CuPy compiles with -ftz=true, under
// which plain C++ flushes them to zero; inline PTX and the *_ieee_* intrinsics are not touched by that, and cuBLAS keeps them ----

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

#endif

// Starts copying `count` of N elements, which are 16 bytes at a multiple of 16, and writes zeros for the others.
template <int N, class T>
__device__ __forceinline__ void copy_vector_async(T* shared, const T* global, int count) {
    static_assert(N * sizeof(T) == 16, "a whole vector");
#if TILEDMM_CP_ASYNC
    cp_async<16>(shared, global, count * static_cast<int>(sizeof(T)));
#else
    for (int i = 0; i < N; ++i) shared[i] = i < count ? global[i] : T{};
#endif
}

// The copies that this thread started since the last call are a group.
__device__ __forceinline__ void commit_copies() {
    if constexpr (TILEDMM_CP_ASYNC) cp_async_commit();
}

// Waits until no more than PENDING of this thread's groups of copies are in flight.
template <int PENDING>
__device__ __forceinline__ void wait_for_copies_except() {
    if constexpr (TILEDMM_CP_ASYNC) cp_async_wait<PENDING>();
}

using uint16 = unsigned short;
using uint32 = unsigned int;
using float32 = float;
using tf32 = float32;   // multiplied by tensor cores, which ignore the last 13 bits of the significand

struct float16 {
    uint16 bits;
};

// A stored element as the number it is.
__device__ __forceinline__ float widen(float16 x) { return half_to_float(x.bits); }
template <class T>
__device__ __forceinline__ T widen(T x) {
    return x;
}

// A number as an element of another type, rounded to nearest even.
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
    template <class Integer>
    static __device__ __forceinline__ float32 from(Integer x) {
        return static_cast<float32>(x);
    }
};
template <>
struct Cast<float16> {
    template <class Number>
    static __device__ __forceinline__ float16 from(Number x) {
        return {float_to_half(Cast<float32>::from(x))};
    }
};

// A float32 number for tensor cores, which ignore its last 13 bits: the nearest that has 11 significant bits, ties away from zero,
// and anything in those 13. A NaN is one still. (What cvt.rna.tf32.f32 comes to, but for the NaNs.)
__device__ __forceinline__ unsigned rounded_to_tf32(float x) {
    const bool finite = fabsf(x) < __uint_as_float(0x7f800000u);
    return finite ? __float_as_uint(x) + (1u << 12) : __float_as_uint(x + x);   // which has a NaN begin with a bit
}

// What products of two elements are summed in (declared to be looked up, never called).
__device__ float32 sum_type(float16);    // rounded once, at the end
__device__ float32 sum_type(float32);
__device__ uint32 sum_type(uint16);   // wraps
__device__ uint32 sum_type(uint32);   // wraps
template <class T>
using Accumulator = decltype(sum_type(T{}));

template <class A, class B>
constexpr bool SAME = false;
template <class A>
constexpr bool SAME<A, A> = true;

// A stored element, taken as an element of type T, ready to be multiplied.
template <class T, class Stored>
__device__ __forceinline__ Accumulator<T> to_accumulator(Stored x) {
    if constexpr (SAME<T, Stored>) return Cast<Accumulator<T>>::from(widen(x));
    else return Cast<Accumulator<T>>::from(widen(Cast<T>::from(widen(x))));
}

// A finished sum as a number of type T: integers wrap. Sums of 16-bit floats are not rounded to T, so that a wider C gets all
// of a float32 sum.
template <class T, class Sum>
__device__ __forceinline__ auto number_of(Sum sum) {
    return static_cast<decltype(widen(T{}))>(sum);
}

// It as it is stored in C.
template <class T, class Stored>
__device__ __forceinline__ Stored from_accumulator(Accumulator<T> sum) {
    return Cast<Stored>::from(number_of<T>(sum));
}

// What is contiguous in memory: rows, columns, or neither (a slice with a step, a reversed or broadcast axis).
enum class Order { ROWS, COLUMNS, STRIDED };

struct Strides {   // in elements; may be negative or zero
    long long row, col, batch[3];
};

// One batched product, as the host describes it.
struct Problem {
    long long m, n, k;            // A (m, k)   B (k, n)   C (m, n)
    long long tiles_m, tiles_n;   // tiles that cover C's rows and columns
    long long tiles;              // those that are computed, of all partitions and products
    long long group;              // columns of tiles that are rasterized together
    long long slices, slice_k;    // split-K partitions, each summed by blocks of its own, and steps of k in each
    long long slice_c;            // elements from where one partition's sums are written to where the next one's are
    long long batch[3];           // products, slowest first
    Strides a, b, c;
};

// A product's place in each dimension of the batch, slowest first. Its offset: elements from the first product's matrix.
struct Place {
    long long at[3];

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
    long long k0, k;        // the first step of k and how many it sums: all, or a split-K partition; at most 2^30
    long long a0, b0, c0;   // where its matrices begin, in elements
    unsigned product;       // which one of the batch,
    Place place;            // and its place there
};

// The tile in this row and column of tiles. `product` counts split-K partitions, too: a product's come one after the other.
__device__ __forceinline__ BlockTile tile_at(const Problem& p, unsigned product, unsigned row, unsigned col, int bm, int bn) {
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

// The same, rasterized in groups (a threadblock swizzle): along the rows of p.group columns, from row to row, then through the
// next columns. Blocks share strips of A, too: they read least where they cover as many rows of C as columns.
__device__ __forceinline__ BlockTile locate_block_in_group(const Problem& p, int bm, int bn, unsigned number = blockIdx.x) {
    const unsigned rows = static_cast<unsigned>(p.tiles_m), cols = static_cast<unsigned>(p.tiles_n), tiles = rows * cols;
    const unsigned product = number / tiles, index = number - product * tiles;
    const unsigned group = static_cast<unsigned>(p.group), first = index / (rows * group) * group;
    const unsigned width = cols - first < group ? cols - first : group, in_group = index - first * rows;
    const unsigned row = in_group / width;
    return tile_at(p, product, row, first + in_group - row * width, bm, bn);
}

// How many of `size` rows or columns from `first` on lie inside a matrix that has `extent` of them.
__device__ __forceinline__ int inside(long long extent, long long first, int size) {
    const long long left = extent - first;
    return left < size ? static_cast<int>(left) : size;
}

// The order of a matrix, transposed.
template <Order ORDER>
constexpr Order TRANSPOSED = ORDER == Order::ROWS ? Order::COLUMNS : ORDER == Order::COLUMNS ? Order::ROWS : ORDER;

// Contiguous elements, which one instruction moves.
template <class Element, int N>
struct alignas(N * sizeof(Element)) Vector {
    Element element[N];
};

// A matrix that is read as elements of type T, or a part of one: `rows` and `cols` from element (0, 0) on may be used.
template <class T, class Stored, Order ORDER, class Index = int>
struct View {
    const Stored* data;   // element (0, 0)
    Index rows, cols;
    long long row_stride, col_stride;

    __device__ __forceinline__ const Stored* address(Index row, Index col) const {
        if constexpr (ORDER == Order::ROWS) return data + row * row_stride + col;
        if constexpr (ORDER == Order::COLUMNS) return data + row + col * col_stride;
        return data + row * row_stride + col * col_stride;
    }

    // The tile of (height, width) elements that begins at (row, col), which must be inside.
    __device__ __forceinline__ View<T, Stored, ORDER> tile(Index row, Index col, int height, int width) const {
        return {address(row, col), inside(rows, row, height), inside(cols, col, width), row_stride, col_stride};
    }

    // The same part, seen from (row, col).
    __device__ __forceinline__ View from(Index row, Index col) const {
        return {address(row, col), rows - row, cols - col, row_stride, col_stride};
    }

    // The same part of the transposed matrix.
    __device__ __forceinline__ View<T, Stored, TRANSPOSED<ORDER>> transposed() const {
        return {data, cols, rows, col_stride, row_stride};
    }

    // Whether what is contiguous, each row or each column, begins at a multiple of so many bytes.
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

    // N elements of a column, from (row, col) on.
    template <int N>
    __device__ __forceinline__ void copy_column_or_zero(void* shared, int row, int col) const {
        const int left = rows - row;
        const int count = col < cols && left > 0 ? left < N ? left : N : 0;
        copy_vector_async<N>(static_cast<Stored*>(shared), address(row, col), count);
    }
};

template <class T, class Stored, Order ORDER>
using Matrix = View<T, Stored, ORDER, long long>;   // of any size

// The tile of C that a block writes; what lies beyond the edge is dropped.
template <class T, class Stored>
struct ResultTile {
    Stored* data;   // element (0, 0)
    int rows, cols;
    long long row_stride, col_stride;

    __device__ __forceinline__ void write(int row, int col, Accumulator<T> sum) const {
        if (row < rows && col < cols) data[row * row_stride + col * col_stride] = from_accumulator<T, Stored>(sum);
    }

    // N elements of a row: one access where they are contiguous, at a multiple of their size.
    template <int N>
    __device__ __forceinline__ void write_row(int row, int col, const Accumulator<T>* sums) const {
        const Stored* const first = data + row * row_stride + col * col_stride;
        if (row < rows && col + N <= cols && col_stride == 1 &&
            reinterpret_cast<unsigned long long>(first) % (N * sizeof(Stored)) == 0)
            return write_vector<N>(row, col, sums);
#pragma unroll
        for (int i = 0; i < N; ++i) write(row, col + i, sums[i]);
    }

    // The same where it is known that all of them are inside, contiguous, at a multiple of their size.
    template <int N>
    __device__ __forceinline__ void write_vector(int row, int col, const Accumulator<T>* sums) const {
        Vector<Stored, N> vector;
#pragma unroll
        for (int i = 0; i < N; ++i) vector.element[i] = from_accumulator<T, Stored>(sums[i]);
        store(reinterpret_cast<Vector<Stored, N>*>(data + row * row_stride + col), vector);
    }
};

// Block's tile of (height, width) elements of C.
template <class T, class Stored>
__device__ __forceinline__ ResultTile<T, Stored> result_tile(Stored* data, const Problem& p, const BlockTile& block,
                                                             int height, int width) {
    return {data + block.c0 + block.row0 * p.c.row + block.col0 * p.c.col, inside(p.m, block.row0, height),
            inside(p.n, block.col0, width), p.c.row, p.c.col};
}

#ifndef TILEDMM_SIMULATOR

#define TILEDMM_MMA(shape_and_types, sum)                                                                     \
    asm("mma.sync.aligned." shape_and_types " { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, "           \
        "{ %0, %1, %2, %3 };"                                                                                 \
        : "+" sum(c[0]), "+" sum(c[1]), "+" sum(c[2]), "+" sum(c[3])                                          \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// C += A @ B, of float16, summed in float32.
__device__ __forceinline__ void mma_float16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    TILEDMM_MMA("m16n8k16.row.col.f32.f16.f16.f32", "f");
#else   // half of k at a time
    for (int i = 0; i < 2; ++i)
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 { %0, %1, %2, %3 }, { %4, %5 }, { %6 }, { %0, %1, %2, %3 };"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
#endif
}

// Reads four (8, 8) matrices of 16-bit elements from shared memory. Lane 8 i + r points to row r of matrix i, 16 bytes at
// a multiple of 16. words[i] is then word quad of row `row` of matrix i, or of the matrix transposed.
template <bool TRANSPOSED>
__device__ __forceinline__ void load_matrices(unsigned (&words)[4], const void* shared) {
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3 }, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(from)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(from)
                     : "memory");
}

#endif

// clang-format off
#define KERNEL tiledmm_tensor_core_f16_128x128x32_nn
using TA = float16;   // an element of A in memory
using TB = float16;   // an element of B in memory
using TC = float16;   // an element of C in memory
using T = float16;   // what elements are converted to, and multiplied as
using Sum = Accumulator<T>;   // what their products are summed in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 128;   // rows of C a block computes
constexpr int BN = 128;   // columns of C a block computes
constexpr int BK = 32;   // step along K: how much of A's columns and B's rows is in a shared tile
constexpr int WM = 64;   // rows of C a warp computes
constexpr int WN = 32;   // columns of C a warp computes
constexpr int TM = 8;   // rows of C a thread computes
constexpr int TN = 8;   // columns of C a thread computes
constexpr int STAGES = 3;   // shared tiles of A, and of B: one is multiplied while the others are on their way
constexpr int LANES_M = WM / TM;
constexpr int LANES_N = WN / TN;
constexpr int WARPS_N = BN / WN;
constexpr int THREADS = BM / TM * (BN / TN);
constexpr bool FITS = __CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 1000;   // others spill
constexpr int MIN_BLOCKS = FITS ? 2 : 1;   // that an SM must hold: bounds registers
// clang-format on

constexpr int UNROLL = 32;   // steps along K that are laid out in full

constexpr bool ROUNDS = true;
// Tiles in shared memory from which tensor cores' operands are read. Needs BK, THREADS, and ROUNDS: whether float32 numbers are
// rounded to tf32 then.

// What operands come in: narrow elements several to a word of 32 bits, others as they are (declared to be looked up, never
// called).
template <class Narrow>
__device__ unsigned word_type(Narrow);

using Word = decltype(word_type(T{}));
constexpr bool NARROW = !SAME<Word, T>;

// An element that is a word, as it is multiplied.
template <class Wide>
__device__ __forceinline__ Wide as_word(Wide x) {
    return x;
}
__device__ __forceinline__ unsigned as_word(tf32 x) { return ROUNDS ? rounded_to_tf32(x) : __float_as_uint(x); }

constexpr int DEPTH = 8 * sizeof(Word) / sizeof(T);   // steps of k of an instruction: 8 words

// A tile of a matrix (WIDTH, BK): lines of LENGTH neighbours, in chunks of 16 bytes. Lines are the matrix's own, as it lies
// in memory; of bytes they run along k, since ldmatrix transposes 16-bit elements only.
//
// Chunks change places within a line, differently from line to line, so that the 128 bytes that are read at once lie in 32
// different banks. By ldmatrix these are a chunk of each of 8 lines. Of words that come one by one, of 4, 8 or 16 bytes, they are
// what 32, 16 or 8 lanes ask for, four of them along k: TOGETHER chunks of a line, which stay side by side, of 2 or 4 lines.
template <int WIDTH, Order ORDER>
struct alignas(128) SwizzledTile {
    static constexpr bool ALONG_K = ORDER != Order::COLUMNS || sizeof(T) == 1;   // neighbours are successive k
    static constexpr int LINES = ALONG_K ? WIDTH : BK, LENGTH = ALONG_K ? BK : WIDTH;
    static constexpr int CHUNK = 16 / sizeof(T), CHUNKS = LENGTH / CHUNK;   // elements of one, and how many a line has
    static constexpr int TURN = CHUNKS < 8 ? CHUNKS : 8;                    // chunks that change places with each other
    static constexpr bool BY_MATRICES = NARROW && (ALONG_K || sizeof(T) == 2);   // ldmatrix brings fragments
    static constexpr int TOGETHER = BY_MATRICES ? 1 : ALONG_K ? 4 * sizeof(T) / 16 : 2;
    static_assert(CHUNKS % TURN == 0 && 8 % TURN == 0 && TURN % TOGETHER == 0, "whole turns");

    T element[LINES * LENGTH];

    // What the numbers of a line's chunks change by: the same again 8 lines on, or 4 where chunks stay TOGETHER and lines are
    // successive k.
    static __device__ __forceinline__ int turn(int line) { return line * TURN / 8 % (TURN / TOGETHER) * TOGETHER; }

    __device__ __forceinline__ T* chunk(int line, int number) {
        return &element[line * LENGTH + (number ^ turn(line)) * CHUNK];
    }

    // Reads A's words of an instruction, which are of 16 of the tile's rows, from (i + down, k) on. So does read_b for COUNT
    // instructions, of 8 rows each: B's columns. i is a multiple of 16, and of 8 chunks where words come one by one.
    //
    // By ldmatrix come four matrices of 8 by 16 bytes at a time: each lane points into one of them.
    template <class W>
    __device__ __forceinline__ void read_a(W (&words)[4], int i, int down, int k, int lane) {
        if constexpr (BY_MATRICES) {
            read_matrices(words, i + down + lane % 16 / 8 * 8, k + lane / 16 * CHUNK, lane);
        } else {
#pragma unroll
            for (int w = 0; w < 4; ++w) words[w] = as_word(word(i, down + w % 2 * 8, k + w / 2 * 4, lane));
        }
    }
    template <class W, int COUNT>
    __device__ __forceinline__ void read_b(W (&words)[COUNT][2], int i, int k, int lane) {
        if constexpr (BY_MATRICES) {
#pragma unroll
            for (int n = 0; n < COUNT; n += 2) {
                W both[4];
                read_matrices(both, i + n * 8 + lane / 16 * 8, k + lane % 16 / 8 * CHUNK, lane);
#pragma unroll
                for (int w = 0; w < 4; ++w) words[n + w / 2][w % 2] = both[w];
            }
        } else {
#pragma unroll
            for (int n = 0; n < COUNT; ++n)
#pragma unroll
                for (int w = 0; w < 2; ++w) words[n][w] = as_word(word(i, n * 8, k + w * 4, lane));
        }
    }

    private:
    template <class W>
    __device__ __forceinline__ void read_matrices(W (&words)[4], int i, int k, int lane) {
        load_matrices<!ALONG_K>(words, ALONG_K ? chunk(i + lane % 8, k / CHUNK) : chunk(k + lane % 8, i / CHUNK));
        if constexpr (SAME<T, tf32>)
#pragma unroll
            for (int w = 0; w < 4; ++w) words[w] = as_word(__uint_as_float(words[w]));
    }

    // The word at (i + down + lane / 4, k + lane % 4). All but i and the lane are constants: so a lane finds once or twice
    // where it begins, and then adds a constant for each word.
    __device__ __forceinline__ T word(int i, int down, int k, int lane) {
        const int line = ALONG_K ? lane / 4 : lane % 4, place = ALONG_K ? lane % 4 : lane / 4;
        const int first = (ALONG_K ? k : down) / CHUNK, own = place / CHUNK ^ turn(line);
        const T* const begin =
            &element[ALONG_K ? (i + line) * LENGTH : line * LENGTH + i] + (first % 8 ^ own) * CHUNK + place % CHUNK;
        return begin[(ALONG_K ? down : k) * LENGTH + first / 8 * 8 * CHUNK];
    }
};

// Copies tiles to shared memory, 16 bytes at a time and without a stop in registers where elements are of type T, lie as
// they are kept, and lines begin at multiples of that; else element by element.
template <int WIDTH, class Stored, Order ORDER>
struct SwizzledCopies {
    using Tile = SwizzledTile<WIDTH, ORDER>;
    static constexpr bool AS_IT_LIES = SAME<T, Stored> && ORDER == (Tile::ALONG_K ? Order::ROWS : Order::COLUMNS);
    static constexpr int CHUNK = Tile::CHUNK, LOADS = WIDTH * BK / CHUNK / THREADS;
    static constexpr int STEP = THREADS / Tile::CHUNKS;   // lines from one of a thread's chunks to its next
    static_assert(WIDTH * BK % (THREADS * CHUNK) == 0 && THREADS % Tile::CHUNKS == 0,
                  "even shares, in whole chunks and lines");

    View<T, Stored, ORDER> view;   // seen from this thread's first element
    bool wide;                     // 16 bytes are copied at once
    bool whole;                    // and all of the tile's WIDTH is inside
    int line, number;              // this thread's first chunk

    __device__ __forceinline__ SwizzledCopies(const View<T, Stored, ORDER>& tile, int thread)
        : view(tile), line(thread / Tile::CHUNKS), number(thread % Tile::CHUNKS) {
        wide = AS_IT_LIES && tile.is_aligned(16);
        whole = wide && tile.rows >= WIDTH;
        view = tile.from(Tile::ALONG_K ? line : number * CHUNK, first_k());
    }

    __device__ __forceinline__ int first_k() const { return Tile::ALONG_K ? number * CHUNK : line; }

    // Sends for the next tile, with `left` steps of k still to come.
    __device__ __forceinline__ void fetch(Tile& tile, int left) {
        auto part = view;
        part.cols = (left < BK ? left : BK) - first_k();
        if (whole && left >= BK) {
            part.rows = part.cols = WIDTH + BK;   // beyond any element: the compiler drops the guards
            copy(tile, part);
        } else if (wide) {
            copy(tile, part);
        } else {
#pragma unroll 1   // laid out, it would take the registers of the sums
            for (int load = 0; load < LOADS; ++load) {
                T* const to = tile.chunk(line + load * STEP, number);
#pragma unroll 2
                for (int e = 0; e < CHUNK; ++e)
                    to[e] = Cast<T>::from(Tile::ALONG_K ? part.read_or_zero(load * STEP, e)
                                                        : part.read_or_zero(e, load * STEP));
            }
        }
        view.move(0, BK);
    }

    private:
    __device__ __forceinline__ void copy(Tile& tile, const View<T, Stored, ORDER>& part) {
        if constexpr (AS_IT_LIES) {
#pragma unroll
            for (int load = 0; load < LOADS; ++load) {
                T* const to = tile.chunk(line + load * STEP, number);
                if constexpr (Tile::ALONG_K)   // neighbours are a column of the transposed matrix
                    part.transposed().template copy_column_or_zero<CHUNK>(to, 0, load * STEP);
                else
                    part.template copy_column_or_zero<CHUNK>(to, 0, load * STEP);
            }
        }
    }
};

template <int WIDTH, class Stored, Order ORDER>
__device__ __forceinline__ SwizzledCopies<WIDTH, Stored, ORDER> swizzled_copies(const View<T, Stored, ORDER>& tile,
                                                                                int thread) {
    return {tile, thread};
}

// tensor_core: a warp multiplies 16 x DEPTH by DEPTH x 8 elements with one instruction, on tensor cores.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N), 16-bit floats and tf32 summed in float32, 8-bit integers, or float64
//           and complex128
// Launch    one block of THREADS threads a (BM, BN) tile of C; a warp of it (WM, WN)
// Shared    STAGES * BK * (BM + BN) * sizeof(T), dynamic          Barriers  1 per K step
// Requires  WM and WN multiples of 16 (of tf32, 32), BK one of DEPTH; each thread as many vectors of a tile as another
// Source    PTX ISA, "Matrix instructions"; CUTLASS, "Efficient GEMM in CUDA"
//
// Tiles stay as the matrices lie. Of 16-bit elements ldmatrix brings fragments from either order, transposed where
// neighbours in memory are not neighbours along k. Bytes, which it cannot transpose, are kept along k. tf32 words, which it
// cannot either, are read one by one where they lie across k, and wider elements always; tf32 is rounded then. Sums stay in
// registers, spread over a warp's lanes as tensor_cores.cuh says.
//
// While one warp waits for fragments, another's products go on. But a block of float64 has an SM for itself, and all of its
// warps pass a barrier together: so its fragments are read a row ahead, and the first of a step while the last row of the step
// before is multiplied. The first step multiplies zeros. (complex128 has no registers left for that.)
static_assert(LANES_M == 8 && LANES_N == 4, "a thread's sums are where mma leaves them");
static_assert(!SAME<T, tf32> || (WM % 32 == 0 && WN % 32 == 0), "words are read one by one, 8 chunks of them at a time");

constexpr bool SPILLS = !TILEDMM_CP_ASYNC || __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890;   // with so few registers
constexpr int BLOCKS = SPILLS ? 1 : MIN_BLOCKS;

struct Tiles {
    SwizzledTile<BM, ORDER_A> a[STAGES];               // (STAGES, BM, BK), or (STAGES, BK, BM)
    SwizzledTile<BN, TRANSPOSED<ORDER_B>> b[STAGES];   // (STAGES, BN, BK), or (STAGES, BK, BN)
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(memory);

    const BlockTile block = locate_block_in_group(p, BM, BN);
    const Matrix<T, TA, ORDER_A> A = {a + block.a0, p.m, block.k, p.a.row, p.a.col};
    const Matrix<T, TB, ORDER_B> B = {b + block.b0, block.k, p.n, p.b.row, p.b.col};
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);   // (BM, BN)

    const int thread = threadIdx.x % THREADS;   // no other number, but now the compiler knows that it is small
    const int warp = thread / 32, lane = thread % 32;
    const int m0 = warp / WARPS_N * WM, n0 = warp % WARPS_N * WN;   // this warp's first row and column of C

    auto a_copies = swizzled_copies<BM>(A.tile(block.row0, 0, BM, BK), thread);
    auto b_copies = swizzled_copies<BN>(B.tile(0, block.col0, BK, BN).transposed(), thread);

    // prologue
    int unsent = static_cast<int>(block.k);   // steps of k that were not sent for yet
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage, unsent -= BK) {
        a_copies.fetch(tiles.a[stage], unsent);
        b_copies.fetch(tiles.b[stage], unsent);
        commit_copies();
    }

    // mainloop
    Sum acc[WM / 16][WN / 8][4] = {};   // of (16, 8) elements each
    Word frag_a[4], frag_b[WN / 8][2];
    int stage = 0, refilled = STAGES - 1;
#pragma unroll 1   // laid out several times, it would only cost registers
    for (; unsent > -(STAGES - 1) * BK; unsent -= BK) {
        wait_for_copies_except<STAGES - 2>();
        __syncthreads();   // these tiles are complete, and nobody reads the last ones any more
#pragma unroll(UNROLL / DEPTH)
        for (int k = 0; k < BK; k += DEPTH) {
            tiles.b[stage].read_b(frag_b, n0, k, lane);
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                tiles.a[stage].read_a(frag_a, m0, i * 16, k, lane);
                if (k == 0 && unsent > 0) {   // amid products, which tensor cores are busy with meanwhile
                    if (i == (WM / 16 - 1) / 2) a_copies.fetch(tiles.a[refilled], unsent);
                    if (i == WM / 32) b_copies.fetch(tiles.b[refilled], unsent);
                }
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) mma_float16(acc[i][j], frag_a, frag_b[j]);
            }
        }
        commit_copies();
        refilled = stage;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    // epilogue
#pragma unroll
    for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                c_tile.template write_row<2>(m0 + i * 16 + half * 8 + lane / 4, n0 + j * 8 + lane % 4 * 2, &acc[i][j][half * 2]);
}
