// tiledmm_vectorized_f32_128x128x8_nn
// Rendered by tiledmm 0.1.0 from vectorized.cu.j2: bm=128 bn=128 bk=8 tm=8 tn=8 pad=4 stages=1 unroll=8 min_blocks=2 wm=0 wn=0 lanes=1 triangle=0 tiles_per_block=1 cluster=1

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

// The tile of a block. Rasterization: down a column of C's tiles, then the next column; concurrent blocks share columns of B.
__device__ __forceinline__ BlockTile locate_block(const Problem& p, int bm, int bn, unsigned linear = blockIdx.x) {
    const unsigned rows = static_cast<unsigned>(p.tiles_m), tiles = rows * static_cast<unsigned>(p.tiles_n);   // of one product
    const unsigned product = linear < tiles ? 0 : linear / tiles, index = linear - product * tiles, col = index / rows;
    return tile_at(p, product, index - col * rows, col, bm, bn);
}

// How many of the `size` rows or columns from `first` on lie inside `extent`; negative or 0 if none does.
__device__ __forceinline__ int inside(long long extent, long long first, int size) {
    return extent - first < size ? static_cast<int>(extent - first) : size;
}

// The order of a matrix, transposed.
template <Order ORDER>
constexpr Order TRANSPOSED = ORDER == Order::ROWS ? Order::COLUMNS : ORDER == Order::COLUMNS ? Order::ROWS : ORDER;

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

    // The same part; (row, col) becomes (0, 0).
    __device__ __forceinline__ View from(Index row, Index col) const {
        return {address(row, col), rows - row, cols - col, row_stride, col_stride};
    }

    // The same part of the transposed matrix.
    __device__ __forceinline__ View<T, Stored, TRANSPOSED<ORDER>> transposed() const {
        return {data, cols, rows, col_stride, row_stride};
    }

    // Whether each contiguous row, or column, begins at a multiple of `bytes`.
    __device__ __forceinline__ bool is_aligned(int bytes) const {
        if constexpr (ORDER == Order::STRIDED) return false;
        const long long stride = ORDER == Order::ROWS ? row_stride : col_stride;
        return (reinterpret_cast<long long>(data) | stride * static_cast<long long>(sizeof(Stored))) % bytes == 0;
    }

    // Moves (0, 0); the caller updates rows and cols.
    __device__ __forceinline__ void move(int down, int right) { data = address(down, right); }

    // The element at (row, col), or zero outside, which adds nothing to a sum.
    __device__ __forceinline__ Accumulator<T> read_or_zero(int row, int col) const {
        return row < rows && col < cols ? to_accumulator<T>(*address(row, col)) : Accumulator<T>{};
    }

    // N contiguous elements from (row, col) on, aligned to their size: all are inside, or none.
    template <int N>
    __device__ __forceinline__ void read_vector_or_zero(Accumulator<T>* values, int row, int col) const {
        Vector<Stored, N> vector = {};
        if (row < rows && col < cols) vector = *reinterpret_cast<const Vector<Stored, N>*>(address(row, col));
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = to_accumulator<T>(vector.element[i]);
    }
};

template <class T, class Stored, Order ORDER>
using Matrix = View<T, Stored, ORDER, long long>;   // of any size

// The tile of C that a block writes; writes outside are dropped.
template <class T, class Stored>
struct ResultTile {
    Stored* data;   // element (0, 0)
    int rows, cols;
    long long row_stride, col_stride;

    __device__ __forceinline__ void write(int row, int col, Accumulator<T> sum) const {
        if (row < rows && col < cols) data[row * row_stride + col * col_stride] = from_accumulator<T, Stored>(sum);
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
#define KERNEL tiledmm_vectorized_f32_128x128x8_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 128;   // rows of C a block computes
constexpr int BN = 128;   // columns of C a block computes
constexpr int BK = 8;   // step along K: how much of A's columns and B's rows is in shared memory at a time
constexpr int TM = 8;   // rows of C a thread computes
constexpr int TN = 8;   // columns of C a thread computes
constexpr int PAD = 4;   // elements added to each row of a shared tile
constexpr int UNROLL = 8;   // steps of the inner loop that are unrolled: BK, or as many as compile fast
constexpr int BLOCK_X = BN / TN;
constexpr int BLOCK_Y = BM / TM;
constexpr int THREADS = BLOCK_X * BLOCK_Y;
constexpr bool FITS = __CUDA_ARCH__ != 800 && __CUDA_ARCH__ < 1000;   // others spill
constexpr int MIN_BLOCKS = FITS ? 2 : 1;   // resident on an SM: bounds registers
// clang-format on

constexpr int V = 16 / sizeof(Sum);   // elements of a 16-byte vector
// A tile in shared memory, one row per k. If it is transposed as it is stored, padding gives a column's 32 elements 32 banks.
template <int WIDTH, Order ORDER>
using Tile = Sum[BK][WIDTH + (ORDER == Order::COLUMNS ? 0 : PAD)];

// Copies tiles to shared memory: element (i, k) of a matrix that begins at `view` goes to tile[k][i]. A thread loads V contiguous
// elements to registers, and stores them contiguously or, if they are successive k, to V rows.
template <int WIDTH, class Stored, Order ORDER>
struct TileCopies {
    static constexpr bool K_MAJOR = ORDER != Order::COLUMNS;   // the matrix's contiguous elements are successive k
    static_assert(WIDTH * BK % (THREADS * V) == 0 || THREADS * V % (WIDTH * BK) == 0, "even shares, in whole vectors");

    // A thread's copies of V contiguous elements: where its first one begins, and the steps to its others.
    static constexpr int ACROSS = (K_MAJOR ? BK : WIDTH) / V;               // copies of a row or column
    static constexpr int COPIES = ACROSS > THREADS ? ACROSS / THREADS : 1;   // of these, a thread's
    static constexpr int STEP = ACROSS > THREADS ? 1 : THREADS / ACROSS;    // rows or columns that all threads copy at a time
    static constexpr bool FEW = WIDTH * BK < THREADS * V;                   // a small tile leaves threads without a copy
    static constexpr int LOADS = FEW ? 1 : WIDTH * BK / (THREADS * V);
    static_assert(ACROSS % THREADS == 0 || THREADS % ACROSS == 0, "whole rows or columns, or even parts of them");
    static constexpr int step_i(int load) { return K_MAJOR ? load / COPIES * STEP : load % COPIES * THREADS * V; }
    static constexpr int step_k(int load) { return K_MAJOR ? load % COPIES * THREADS * V : load / COPIES * STEP; }

    View<T, Stored, ORDER> view;   // begins at this thread's first element,
    int i, k;                      // which is at (i, k) of the tile
    bool wide;                     // V contiguous elements are read at a time
    Sum next[LOADS * V];

    // `length`: contiguous elements of a row, or column, of the matrix.
    __device__ __forceinline__ TileCopies(const View<T, Stored, ORDER>& tile, long long length, int thread) : view(tile) {
        wide = tile.is_aligned(V * sizeof(Stored)) && length % V == 0;
        i = K_MAJOR ? thread / ACROSS : thread % ACROSS * V;
        k = K_MAJOR ? thread % ACROSS * V : thread / ACROSS;
        view = tile.from(i, k);
    }

    // Loads the next tile to registers; `left` steps of k remain.
    __device__ __forceinline__ void fetch(long long left) {
        auto part = view;
        part.cols = inside(left, 0, BK) - k;
        const bool vectors = wide;
#pragma unroll
        for (int load = 0; load < LOADS; ++load) {
            const int di = step_i(load), dk = step_k(load);
            if (vectors)
                part.template read_vector_or_zero<V>(&next[load * V], di, dk);
            else
#pragma unroll
                for (int v = 0; v < V; ++v)
                    next[load * V + v] = part.read_or_zero(di + (K_MAJOR ? 0 : v), dk + (K_MAJOR ? v : 0));
        }
        view.move(0, BK);
    }

    __device__ __forceinline__ void store_shared(Tile<WIDTH, ORDER>& tile) {
        if (FEW && (K_MAJOR ? i >= WIDTH : k >= BK)) return;
#pragma unroll
        for (int load = 0; load < LOADS * V; ++load) {
            const int di = step_i(load / V) + (K_MAJOR ? 0 : load % V);
            const int dk = step_k(load / V) + (K_MAJOR ? load % V : 0);
            tile[k + dk][i + di] = next[load];
        }
    }
};

// Reads a thread's fragment of a row of a tile: COUNT elements, in groups of V that are LANES * V apart.
template <int COUNT, int LANES>
__device__ __forceinline__ void read_fragment(Sum (&fragment)[COUNT], const Sum* row) {
#pragma unroll
    for (int c = 0; c < COUNT; ++c) fragment[c] = reinterpret_cast<const Vector<Sum, V>*>(row + c / V * V * LANES)->element[c % V];
}

// vectorized: as register_tiled, with 16-byte vector accesses (float4) to and from global and shared memory.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of (BLOCK_X, BLOCK_Y) threads per (BM, BN) tile of C
// Shared    sizeof(Sum) * BK * (BM + BN), plus PAD per row of a tile that is transposed          Barriers  2 per K step
// Requires  every thread copies the same number of whole vectors of each tile
// Source    S. Boehm, "How to optimize a CUDA matmul kernel for cuBLAS-like performance" (2022)
//
// A 16-byte load is one instruction instead of four. A thread's rows and columns of C come in groups of V = 16 / sizeof(Sum)
// contiguous ones. Global loads are vectorized if each row (or column) is 16-byte aligned and has a multiple of V elements.
static_assert(TM % V == 0 && TN % V == 0, "a thread's elements are whole vectors");
static_assert(PAD * sizeof(Sum) % 16 == 0, "padding keeps the rows of a tile 16-byte aligned");

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    __shared__ alignas(16) Tile<BM, ORDER_A> As;               // (BK, BM)
    __shared__ alignas(16) Tile<BN, TRANSPOSED<ORDER_B>> Bs;   // (BK, BN)

    const BlockTile block = locate_block(p, BM, BN);
    const Matrix<T, TA, ORDER_A> A = {a + block.a0, p.m, block.k, p.a.row, p.a.col};
    const Matrix<T, TB, ORDER_B> B = {b + block.b0, block.k, p.n, p.b.row, p.b.col};
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);   // (BM, BN)

    const int thread = threadIdx.y * BLOCK_X + threadIdx.x;
    const int m0 = threadIdx.y * V;   // this thread's first row and column of C
    const int n0 = threadIdx.x * V;

    TileCopies<BM, TA, ORDER_A> a_copies(A.tile(block.row0, 0, BM, BK), ORDER_A == Order::ROWS ? block.k : p.m, thread);
    TileCopies<BN, TB, TRANSPOSED<ORDER_B>> b_copies(B.tile(0, block.col0, BK, BN).transposed(),
                                                     ORDER_B == Order::ROWS ? p.n : block.k, thread);

    Sum acc[TM][TN] = {};   // (TM, TN)  groups of V, BLOCK_Y * V rows and BLOCK_X * V columns apart
#pragma unroll 1   // unrolled it would only cost registers
    for (long long left = block.k; left > 0; left -= BK) {
        a_copies.fetch(left);
        b_copies.fetch(left);
        a_copies.store_shared(As);
        b_copies.store_shared(Bs);
        __syncthreads();   // both tiles are complete before anyone reads them

#pragma unroll UNROLL
        for (int k = 0; k < BK; ++k) {
            Sum frag_a[TM], frag_b[TN];
            read_fragment<TM, BLOCK_Y>(frag_a, &As[k][m0]);
            read_fragment<TN, BLOCK_X>(frag_b, &Bs[k][n0]);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] = multiply_add(frag_a[i], frag_b[j], acc[i][j]);
        }
        __syncthreads();   // everyone has read the tiles before the next ones overwrite them
    }

#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; j += V)
            c_tile.template write_row<V>(m0 + i / V * BLOCK_Y * V + i % V, n0 + j * BLOCK_X, &acc[i][j]);
}
