// tiledmm_tiny_f32_8x8x8_nn
// Rendered by tiledmm 0.1.0 from tiny.cu.j2: bm=8 bn=8 bk=8 tm=2 tn=4 pad=8 stages=1 unroll=8 min_blocks=5 wm=0 wn=0 lanes=1 triangle=0 tiles_per_block=16 cluster=1

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

// How many tiles the launch computes.
__device__ __forceinline__ long long tiles_to_compute(const Problem& p) { return p.tiles; }

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

    // The element at (row, col), which must be inside.
    __device__ __forceinline__ Accumulator<T> read(Index row, Index col) const { return to_accumulator<T>(*address(row, col)); }

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

    // Whether N elements from a multiple of N on are contiguous, aligned to their size, and all inside or all outside. `length`:
    // contiguous elements of a row, or column, of the matrix.
    template <int N>
    __device__ __forceinline__ bool consists_of_vectors(long long length) const {
        return is_aligned(N * sizeof(Stored)) && length % N == 0;
    }

    // Moves (0, 0); the caller updates rows and cols.
    __device__ __forceinline__ void move(int down, int right) { data = address(down, right); }

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
#define KERNEL tiledmm_tiny_f32_8x8x8_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 8;   // rows of C a group of threads computes
constexpr int BN = 8;   // columns of C a group computes
constexpr int BK = 8;   // step along K: columns of A and rows of B in shared memory
constexpr int TM = 2;   // rows of C a thread computes
constexpr int TN = 4;   // columns of C a thread computes
constexpr int PAD = 8;   // elements added to each shared tile, so that a warp's groups access different banks
constexpr int UNROLL = 8;   // steps of the inner loop that are unrolled
constexpr int TILES_PER_BLOCK = 16;   // groups of a block: each computes one tile, of any product
constexpr int LANES_N = BN / TN;
constexpr int GROUP = BM / TM * LANES_N;   // threads of a group
constexpr int THREADS = GROUP * TILES_PER_BLOCK;
constexpr bool FITS = __CUDA_ARCH__ != 800 && __CUDA_ARCH__ < 1000;   // others spill
constexpr int MIN_BLOCKS = FITS ? 5 : 1;   // resident on an SM: bounds registers
// clang-format on

// tiny: a warp, or a part of one, computes a tile of C, and a block computes many. For batches of small products.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of THREADS threads per TILES_PER_BLOCK (BM, BN) tiles of C, one thread per (TM, TN)
// Shared    TILES_PER_BLOCK * (BM * BK + BK * BN + 2 * PAD) * sizeof(Sum)          Barriers  2 per K step, of warps
// Requires  a group lies in one warp; every thread copies the same number of whole vectors of each tile
// Source    CUDA C++ Programming Guide, "Warp synchronization functions"; "Shared memory"
//
// An 8 by 8 product takes less time than a barrier of a block. Here no warp waits for another, and all loads of a product of up to
// BK steps of k are issued at once, 16 bytes each if rows are aligned. Locating a tile takes as many instructions as multiplying:
// so groups are small, and a warp locates several tiles at a time.
//
// All groups of a warp take the steps of the longest split-K partition and reach every barrier. A group without a tile, or with
// a shorter partition, reads zeros, which add nothing.
static_assert(32 % GROUP == 0 && THREADS % 32 == 0, "a group lies in one warp, and all warps are full");
static_assert(PAD * sizeof(Sum) % 16 == 0, "padding keeps tiles 16-byte aligned");

constexpr int V = 16 / sizeof(Sum);   // elements of a 16-byte vector

// A group's tile of A, or of B transposed: (WIDTH, BK) elements (i, k), in the matrix's order. A thread multiplies COUNT successive i.
// Vectors are swizzled within a row of the tile: lanes that read the same column in rows COUNT apart access different banks.
template <int WIDTH, int COUNT, Order ORDER>
struct Tile {
    static constexpr bool K_MAJOR = ORDER != Order::COLUMNS;
    static constexpr int LENGTH = K_MAJOR ? BK : WIDTH;   // of a row of the tile: contiguous elements
    static constexpr int ROW_BYTES = LENGTH * sizeof(Sum);
    static constexpr int SAME_SWIZZLE = COUNT * ROW_BYTES > 128 ? COUNT : 128 / ROW_BYTES;   // successive rows with the same swizzle
    static constexpr int SHARE = WIDTH * BK / GROUP;   // elements that a thread copies
    static_assert(LENGTH % V == 0 && SHARE % V == 0, "whole vectors");

    Vector<Sum, V> vectors[(WIDTH * BK + PAD) / V];

    // Coordinates of the e-th element of the tile, row by row.
    static __device__ __forceinline__ int i_of(int e) { return K_MAJOR ? e / LENGTH : e % LENGTH; }
    static __device__ __forceinline__ int k_of(int e) { return K_MAJOR ? e % LENGTH : e / LENGTH; }

    // N contiguous elements, from (i, k) on.
    template <int N>
    __device__ __forceinline__ Vector<Sum, N>& at(int i, int k) {
        const int row = K_MAJOR ? i : k, col = K_MAJOR ? k : i;
        const int vector = row * (LENGTH / V) + (col / V ^ row / SAME_SWIZZLE % (LENGTH / V));
        return reinterpret_cast<Vector<Sum, N>&>(vectors[vector].element[col % V]);
    }

    // Loads a thread's share of the tile to registers, N contiguous elements at a time; consecutive threads' are contiguous.
    template <int N, class Part>
    static __device__ __forceinline__ void fetch(Sum (&share)[SHARE], const Part& part) {
#pragma unroll
        for (int s = 0; s < SHARE; s += N) part.template read_vector_or_zero<N>(&share[s], i_of(s * GROUP), k_of(s * GROUP));
    }

    // Stores the share to the tile.
    template <int N>
    __device__ __forceinline__ void store_shared(const Sum (&share)[SHARE], int thread) {
#pragma unroll
        for (int s = 0; s < SHARE; s += N) {
            const int e = thread * N + s * GROUP;
            Vector<Sum, N> vector;
#pragma unroll
            for (int n = 0; n < N; ++n) vector.element[n] = share[s + n];
            at<N>(i_of(e), k_of(e)) = vector;
        }
    }

    // Reads a thread's fragments: COUNT elements from i on, of V steps of k.
    __device__ __forceinline__ void read(Sum (&fragments)[V][COUNT], int i, int k) {
        constexpr int N = K_MAJOR || COUNT > V ? V : COUNT;
#pragma unroll
        for (int c = 0; c < COUNT; c += K_MAJOR ? 1 : N)
#pragma unroll
            for (int v = 0; v < V; v += K_MAJOR ? N : 1) {
                const Vector<Sum, N> vector = at<N>(i + c, k + v);
#pragma unroll
                for (int n = 0; n < N; ++n) fragments[K_MAJOR ? v + n : v][K_MAJOR ? c : c + n] = vector.element[n];
            }
    }
};
using TileA = Tile<BM, TM, ORDER_A>;
using TileB = Tile<BN, TN, TRANSPOSED<ORDER_B>>;

// Computes a thread's part of a tile of C from `depth` steps of k; `longest` is the largest depth of a group. N: contiguous elements
// that are copied at a time.
template <int N, class ViewA, class ViewB>
__device__ __forceinline__ void multiply(Sum (&acc)[TM][TN], TileA& As, TileB& Bs, ViewA a_view, ViewB b_view, int thread,
                                         long long depth, long long longest) {
    const int m0 = thread / LANES_N * TM, n0 = thread % LANES_N * TN;   // its first row and column
    const int a_k = TileA::k_of(thread * N), b_k = TileB::k_of(thread * N);
    a_view = a_view.from(TileA::i_of(thread * N), a_k);
    b_view = b_view.from(TileB::i_of(thread * N), b_k);
#pragma unroll 1   // unrolled it would only cost registers
    for (long long k0 = 0; k0 < longest; k0 += BK) {
        const int steps = inside(depth, k0, BK);
        a_view.cols = steps - a_k;
        b_view.cols = steps - b_k;
        Sum a_share[TileA::SHARE], b_share[TileB::SHARE];
        TileA::template fetch<N>(a_share, a_view);   // all loads are issued before the first is waited for
        TileB::template fetch<N>(b_share, b_view);
        As.template store_shared<N>(a_share, thread);
        Bs.template store_shared<N>(b_share, thread);
        a_view.move(0, BK);
        b_view.move(0, BK);
        __syncwarp();   // both tiles are complete before anyone reads them

#pragma unroll UNROLL / V
        for (int k = 0; k < BK; k += V) {
            Sum frag_a[V][TM], frag_b[V][TN];
            As.read(frag_a, m0, k);
            Bs.read(frag_b, n0, k);
#pragma unroll
            for (int v = 0; v < V; ++v)
#pragma unroll
                for (int i = 0; i < TM; ++i)
#pragma unroll
                    for (int j = 0; j < TN; ++j) acc[i][j] = multiply_add(frag_a[v][i], frag_b[v][j], acc[i][j]);
        }
        __syncwarp();   // everyone has read the tiles before the next ones overwrite them
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    __shared__ TileA a_tiles[TILES_PER_BLOCK];
    __shared__ TileB b_tiles[TILES_PER_BLOCK];

    const int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP;
    const unsigned index = blockIdx.x * TILES_PER_BLOCK + group;
    const BlockTile tile = locate_block(p, BM, BN, index);
    const bool exists = index < tiles_to_compute(p);
    const long long depth = exists ? tile.k : 0;   // a group without a tile still takes part in barriers
    const long long longest = p.k < p.partition_k ? p.k : p.partition_k;
    const auto A = matrix<T, ORDER_A>(a + tile.a0, p.m, depth, p.a);
    const auto B = matrix<T, ORDER_B>(b + tile.b0, depth, p.n, p.b);
    const auto a_view = A.tile(tile.row0, 0, BM, BK);                // (BM, BK)
    const auto b_view = B.tile(0, tile.col0, BK, BN).transposed();   // (BN, BK)
    const bool vectors = a_view.template consists_of_vectors<V>(ORDER_A == Order::ROWS ? depth : p.m) &&
                         b_view.template consists_of_vectors<V>(ORDER_B == Order::COLUMNS ? depth : p.n);

    Sum acc[TM][TN] = {};   // (TM, TN)
    if (V == 1 || __all_sync(0xffffffff, vectors))   // uniform over the warp: its groups share barriers
        multiply<V>(acc, a_tiles[group], b_tiles[group], a_view, b_view, thread, depth, longest);
    else
        multiply<1>(acc, a_tiles[group], b_tiles[group], a_view, b_view, thread, depth, longest);
    if (!exists) return;

    const auto c_tile = result_tile<T>(c, p, tile, BM, BN);   // (BM, BN)
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; j += V)
            c_tile.template write_row<V>(thread / LANES_N * TM + i, thread % LANES_N * TN + j, &acc[i][j]);
}
