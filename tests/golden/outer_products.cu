// tiledmm_outer_products_f32_32x128x4_nn
// Rendered by tiledmm 0.1.0 from outer_products.cu.j2: bm=32 bn=128 bk=4 tm=8 tn=4 pad=0 stages=0 unroll=2 min_blocks=1 wm=0 wn=0 lanes=1 triangle=0 tiles_per_block=1 cluster=1

#ifndef TILEDMM_SIMULATOR   // the simulator defines these functions in C++: tiledmm/simulator/build/native/ptx.h

// Writes contiguous elements, aligned to their size, with vector stores: the compiler splits its own where a kernel also writes
// single elements. Their registers are consecutive; accumulators that were so would conflict in the mainloop (register banks). So a
// zero is added that the compiler does not know: blockIdx.z, as grids are one-dimensional. (ptxas bounds %laneid >> 5.)
template <class T>
__device__ __forceinline__ void store(T* global, const T& vector) {
    constexpr int COUNT = sizeof(T) / 4;
    if constexpr (sizeof(T) % 8 != 0) {
        *global = vector;
    } else {
        const unsigned zero = blockIdx.z;
        unsigned* const to = reinterpret_cast<unsigned*>(__cvta_generic_to_global(global));
        unsigned r[COUNT];
        memcpy(r, &vector, sizeof(T));
#pragma unroll
        for (int i = 0; i < COUNT; ++i) r[i] += zero;
        if constexpr (COUNT == 2)
            asm volatile("st.global.v2.b32 [%0], { %1, %2 };" ::"l"(to), "r"(r[0]), "r"(r[1]) : "memory");
        else
#pragma unroll
            for (int i = 0; i < COUNT; i += 4)
                asm volatile("st.global.v4.b32 [%0], { %1, %2, %3, %4 };" ::"l"(to + i), "r"(r[i]), "r"(r[i + 1]), "r"(r[i + 2]),
                             "r"(r[i + 3]) : "memory");
    }
}

#endif

using float32 = float;

// The type that products of two elements are accumulated in.
template <class T>
using Accumulator = T;

__device__ __forceinline__ float32 multiply_add(float32 a, float32 b, float32 sum) { return __fmaf_ieee_rn(a, b, sum); }

// A compile-time value as an argument, so that a generic lambda is compiled once for each.
template <bool VALUE>
struct Constant {
    static constexpr bool value = VALUE;
};

// A stored element as it is multiplied, and a finished sum as it is stored: this kernel converts neither.
template <class T>
__device__ __forceinline__ T to_accumulator(T x) { return x; }
template <class T, class Stored>
__device__ __forceinline__ Stored from_accumulator(T sum) { return sum; }

// What is contiguous in memory: rows, columns, or neither (a slice with a step, a reversed or broadcast axis).
enum class Order { ROWS, COLUMNS, STRIDED };

struct Strides {   // in elements; may be negative or zero
    long long row, col, batch[3];
};

// One batched product: the kernels' argument (tiledmm/kernels/launches.py packs it).
struct Problem {
    long long m, n, k;                // A (m, k)   B (k, n)   C (m, n)
    long long tiles_m, tiles_n;       // tiles that cover C's rows and columns
    long long tiles;                  // tiles to compute, over all partitions and products
    long long group;                  // columns of tiles in a rasterization group
    long long split_k, partition_k;   // number of split-K partitions, and steps of k in each
    long long partition_c;            // stride between the partial sums of successive partitions, in elements
    long long batch[3];               // products, slowest dimension first
    Strides a, b, c;
};

// A product's index in each dimension of the batch, slowest first; and the offset of its matrix from the first product's.
struct BatchIndex {
    long long at[3];
};
__device__ __forceinline__ BatchIndex batch_index(const Problem& p, unsigned product) {
    const unsigned middle = static_cast<unsigned>(p.batch[1]), fast = static_cast<unsigned>(p.batch[2]);
    const unsigned slow = product / fast, i0 = slow / middle;
    return {i0, slow - i0 * middle, product - slow * fast};
}
__device__ __forceinline__ long long batch_offset(const BatchIndex& i, const Strides& strides) {
    return i.at[0] * strides.batch[0] + i.at[1] * strides.batch[1] + i.at[2] * strides.batch[2];
}

// The part of the problem that one block computes.
struct BlockTile {
    long long row0, col0;   // its first row and column of C
    long long k0, k;        // the first step of k and how many it sums: all, or a split-K partition; at most 2^29
    long long a0, b0, c0;   // where its matrices begin, in elements
    unsigned product;       // index in the batch
};

// The tile in this row and column of tiles. `product` also counts split-K partitions: those of one product are contiguous.
__device__ __forceinline__ BlockTile tile_at(const Problem& p, unsigned product, unsigned row, unsigned col, int bm, int bn) {
    BlockTile tile = {static_cast<long long>(row) * bm, static_cast<long long>(col) * bn, 0, p.k, 0, 0, 0, 0};
    if (p.split_k > 1) {
        const long long partition = product % static_cast<unsigned>(p.split_k);
        product /= static_cast<unsigned>(p.split_k);
        tile.k0 = partition * p.partition_k;
        tile.k = p.k - tile.k0 < p.partition_k ? p.k - tile.k0 : p.partition_k;
        tile.a0 = tile.k0 * p.a.col;
        tile.b0 = tile.k0 * p.b.row;
        tile.c0 = partition * p.partition_c;
    }
    if (product > 0) {
        tile.product = product;
        const BatchIndex batch = batch_index(p, product);
        tile.a0 += batch_offset(batch, p.a);
        tile.b0 += batch_offset(batch, p.b);
        tile.c0 += batch_offset(batch, p.c);
    }
    return tile;
}

// The tile of a block. Rasterization: along a row of C's tiles, then the next row; concurrent blocks write whole rows, which is what
// DRAM is fastest at.
__device__ __forceinline__ BlockTile locate_block_by_rows(const Problem& p, int bm, int bn) {
    const unsigned rows = static_cast<unsigned>(p.tiles_m), cols = static_cast<unsigned>(p.tiles_n), index = blockIdx.x / cols;
    return tile_at(p, index / rows, index % rows, blockIdx.x % cols, bm, bn);
}

// How many of the `size` rows or columns from `first` on lie inside `extent`; negative or 0 if none does.
__device__ __forceinline__ int inside(long long extent, long long first, int size) {
    return extent - first < size ? static_cast<int>(extent - first) : size;
}

// N contiguous elements, loaded or stored by one instruction.
template <class Element, int N>
struct alignas(N * sizeof(Element)) Vector {
    Element element[N];
};

// A matrix, or a part of one, whose elements are read as type T. (0, 0) to (rows - 1, cols - 1) may be read.
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

    // The element at (row, col), or zero outside, which adds nothing to a sum.
    __device__ __forceinline__ Accumulator<T> read_or_zero(int row, int col) const {
        return row < rows && col < cols ? to_accumulator<T>(*address(row, col)) : Accumulator<T>{};
    }
};

template <class T, class Stored, Order ORDER>
using Matrix = View<T, Stored, ORDER, long long>;   // of any size

template <class T, Order ORDER, class Stored>
__device__ __forceinline__ Matrix<T, Stored, ORDER> matrix(const Stored* data, long long rows, long long cols,
                                                           const Strides& strides) {
    return {data, rows, cols, strides.row, strides.col};
}

// The tile of C that a block writes; writes outside are dropped.
template <class T, class Stored>
struct ResultTile {
    Stored* data;   // element (0, 0)
    int rows, cols;
    long long row_stride, col_stride;

    __device__ __forceinline__ void write(int row, int col, Accumulator<T> sum) const {
        if (row < rows && col < cols) data[row * row_stride + col * col_stride] = from_accumulator<T, Stored>(sum);
    }

    // Elements of a row before the first N that are aligned to their size in memory; 0 if rows are not contiguous.
    template <int N>
    __device__ __forceinline__ int elements_before(int row) const {
        const long long first = reinterpret_cast<long long>(data) / static_cast<int>(sizeof(Stored)) + row * row_stride;
        return col_stride == 1 ? static_cast<int>(-first & (N - 1)) : 0;
    }

    // Writes N elements of a row: in one access if they are contiguous and aligned to their size.
    template <int N>
    __device__ __forceinline__ void write_row(int row, int col, const Accumulator<T>* sums) const {
        const Stored* const first = data + row * row_stride + col * col_stride;
        if (row < rows && col + N <= cols && col_stride == 1 && reinterpret_cast<size_t>(first) % (N * sizeof(Stored)) == 0) {
            Vector<Stored, N> vector;
#pragma unroll
            for (int i = 0; i < N; ++i) vector.element[i] = from_accumulator<T, Stored>(sums[i]);
            return store(reinterpret_cast<Vector<Stored, N>*>(data + row * row_stride + col), vector);
        }
#pragma unroll
        for (int i = 0; i < N; ++i) write(row, col + i, sums[i]);
    }
};

// The block's tile of (height, width) elements of C.
template <class T, class Stored>
__device__ __forceinline__ ResultTile<T, Stored> result_tile(Stored* data, const Problem& p, const BlockTile& block,
                                                             int height, int width) {
    return {data + block.c0 + block.row0 * p.c.row + block.col0 * p.c.col, inside(p.m, block.row0, height),
            inside(p.n, block.col0, width), p.c.row, p.c.col};
}

// clang-format off
#define KERNEL tiledmm_outer_products_f32_32x128x4_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 32;   // rows of C a block computes
constexpr int BN = 128;   // columns of C a block computes
constexpr int BK = 4;   // steps of k whose elements of B are in registers
constexpr int TN = 4;   // columns of C a thread computes
constexpr int WARPS = BM / 8;   // of a block: each computes every WARPS-th row
constexpr int UNROLL = 2;   // rows whose elements of A are loaded together
constexpr int MIN_BLOCKS = 1;   // resident on an SM: bounds registers
constexpr int THREADS = WARPS * 32;
constexpr int WORD = sizeof(TC) < 4 ? 4 / sizeof(TC) : 1;   // elements of 4 bytes, written at once
// clang-format on

// outer_products: C as a sum of columns of A times rows of B. For a K so short that writing C takes most of the time.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of THREADS threads per (BM, BN) tile of C          Shared  none          Barriers  none
// Requires  nothing; fast up to K = BK where C's rows are contiguous
// Source    BLAS, "GER", the rank-1 update
//
// Each element of C is written once, and hardly anything is read: what counts is that all SMs write all the time. A warp keeps BK rows
// of its columns of B in registers and walks down rows of C. Nothing waits for a barrier, and it loads elements of A for several
// rows ahead. Successive lanes write successive words, so that the stores of a warp are contiguous whatever C's alignment.
//
// Rows of narrow elements need not begin at a word. Those of a warp are WARPS apart, so that all begin at the same byte of a word: the
// warp's columns begin at the first whole one. The elements before that, in the first tile of a row, are computed on their own.
static_assert(BN == 32 * TN && TN % WORD == 0, "a lane has whole words, 32 apart");
static_assert(WARPS % WORD == 0, "a warp's rows are aligned alike");
static_assert(BM % (UNROLL * WARPS) == 0, "a warp has whole groups of rows");

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    const BlockTile block = locate_block_by_rows(p, BM, BN);
    const auto A = matrix<T, ORDER_A>(a + block.a0, p.m, block.k, p.a);
    const auto B = matrix<T, ORDER_B>(b + block.b0, block.k, p.n, p.b);
    const auto c_tile = result_tile<T>(c, p, block, BM, BN + WORD - 1);   // (BM, BN) from any byte of a word on
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int before = c_tile.template elements_before<WORD>(warp);   // the first whole word
    const auto column = [&](int j) { return before + (j / WORD * 32 + lane) * WORD + j % WORD; };

    const auto a_view = A.tile(block.row0, 0, BM, BK);              // (BM, BK)
    const auto b_view = B.tile(0, block.col0, BK, BN + WORD - 1);   // (BK, BN) from any byte of a word on
    const auto dot_product = [&](int row, int col) {
        Sum sum = {};
        for (long long k = 0; k < block.k; ++k) {
            const Sum element = B.tile(k, block.col0, 1, BN + WORD - 1).read_or_zero(0, col);
            sum = multiply_add(A.tile(block.row0, k, BM, 1).read_or_zero(row, 0), element, sum);
        }
        return sum;
    };

    if (block.k > BK) {   // longer than this kernel is for
#pragma unroll 1
        for (int row = warp; row < c_tile.rows; row += WARPS)
            for (int j = 0; j < TN; ++j) c_tile.write(row, column(j), dot_product(row, column(j)));
    } else {
        Sum frag_b[BK][TN];
#pragma unroll
        for (int k = 0; k < BK; ++k)
#pragma unroll
            for (int j = 0; j < TN; ++j) frag_b[k][j] = b_view.read_or_zero(k, column(j));
        const auto walk = [&](auto whole) {
            auto rows = a_view;
            if (whole.value) rows.rows = BM;   // the compiler drops the guards
#pragma unroll 1   // unrolled it would only cost registers
            for (int first = warp; first < rows.rows; first += UNROLL * WARPS) {
                Sum frag_a[UNROLL][BK];
#pragma unroll
                for (int i = 0; i < UNROLL; ++i)
#pragma unroll
                    for (int k = 0; k < BK; ++k) frag_a[i][k] = rows.read_or_zero(first + i * WARPS, k);
#pragma unroll
                for (int i = 0; i < UNROLL; ++i) {
                    const int row = first + i * WARPS;
                    Sum acc[TN] = {};
#pragma unroll
                    for (int k = 0; k < BK; ++k)
#pragma unroll
                        for (int j = 0; j < TN; ++j) acc[j] = multiply_add(frag_a[i][k], frag_b[k][j], acc[j]);
#pragma unroll
                    for (int j = 0; j < TN; j += WORD) {
                        Vector<TC, WORD> word;
#pragma unroll
                        for (int e = 0; e < WORD; ++e) word.element[e] = from_accumulator<T, TC>(acc[j + e]);
                        if (whole.value) *reinterpret_cast<Vector<TC, WORD>*>(c_tile.data + row * c_tile.row_stride + column(j)) = word;
                        else c_tile.template write_row<WORD>(row, column(j), &acc[j]);
                    }
                }
            }
        };
        // Whole tiles, which most are, need no guards.
        if (c_tile.col_stride == 1 && c_tile.rows == BM && c_tile.cols >= before + BN) walk(Constant<true>{});
        else walk(Constant<false>{});
    }
    if (block.col0 > 0 || lane >= before) return;
    for (int row = warp; row < c_tile.rows; row += WARPS) c_tile.write(row, lane, dot_product(row, lane));
}
