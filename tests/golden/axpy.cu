// tiledmm_axpy_f32_4x32x32_nn
// Rendered by tiledmm 0.1.0 from axpy.cu.j2: bm=4 bn=32 bk=32 tm=4 tn=4 pad=0 stages=0 unroll=8 min_blocks=1 wm=0 wn=0 lanes=32 triangle=0 tiles_per_block=1 cluster=1

#ifndef TILEDMM_SIMULATOR   // the simulator defines these functions in C++: tiledmm/simulator/build/native/ptx.h

// ---- conversions and arithmetic that keep subnormals, rounded to nearest even. CuPy compiles with -ftz=true, which flushes them
// to zero in plain C++, but neither in inline PTX nor in the *_ieee_* intrinsics. cuBLAS keeps them, too. ----

__device__ __forceinline__ float add(float x, float y) {
    float sum;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(x), "f"(y));
    return sum;
}

#endif

using float32 = float;

// The type that products of two elements are accumulated in.
template <class T>
using Accumulator = T;

__device__ __forceinline__ float32 multiply_add(float32 a, float32 b, float32 sum) { return __fmaf_ieee_rn(a, b, sum); }

// The value of lane (lane ^ lane_mask). All lanes of the warp must call it.
template <class Value>
__device__ __forceinline__ Value shuffle_xor(Value x, int lane_mask) {
    return __shfl_xor_sync(0xffffffffu, x, lane_mask);
}

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
};

// The block's tile of (height, width) elements of C.
template <class T, class Stored>
__device__ __forceinline__ ResultTile<T, Stored> result_tile(Stored* data, const Problem& p, const BlockTile& block,
                                                             int height, int width) {
    return {data + block.c0 + block.row0 * p.c.row + block.col0 * p.c.col, inside(p.m, block.row0, height),
            inside(p.n, block.col0, width), p.c.row, p.c.col};
}

// clang-format off
#define KERNEL tiledmm_axpy_f32_4x32x32_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 4;   // rows of C a block computes
constexpr int BN = 32;   // columns of C a block computes: up to 128 bytes of a row of B
constexpr int BK = 32;   // step along K: rows of B that a block reads at a time
constexpr int V = 4;   // contiguous elements that a thread reads, and columns that it sums
constexpr int UNROLL = 8;   // steps along K whose loads are in flight together
constexpr int MIN_BLOCKS = 1;   // resident on an SM: bounds registers
constexpr int LANES_N = BN / V;   // threads that share a row
constexpr int THREADS = LANES_N * BK;
constexpr int WARPS = THREADS / 32;
constexpr int WORD = sizeof(TB) < 4 ? 4 / sizeof(TB) : 1;   // elements of 4 bytes, read at once if no more can be
// clang-format on

// axpy: a row of C is a sum of B's rows, each times an element of A (BLAS: y = a x + y). For a C with few rows.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of THREADS threads per (BM, BN) tile of C          Shared  WARPS * BM * BN * sizeof(Sum)          Barriers  1
// Requires  nothing; fast where B's rows are contiguous
// Source    Lawson et al., "Basic Linear Algebra Subprograms for Fortran Usage" (1979)
//
// A vector times a matrix reads each element of B once: all that matters is enough loads in flight. A block has few columns, so
// that there are blocks for all SMs, and all of K, since blocks that share K would need a second launch. It reads BK rows at a
// time. Each thread sums its columns over every BK-th row; at the end the block adds up the sums of a column's threads.
// Where rows of B are not aligned, a thread reads as many elements in smaller accesses, and the loads of a warp stay contiguous.
static_assert(32 % LANES_N == 0 && THREADS % 32 == 0, "lanes of a warp read whole rows of the tile");

// A thread's columns: V / N groups of N contiguous ones, read at once. The threads of a row read contiguous groups.
template <int N>
__device__ __forceinline__ int column(int v) {
    return (threadIdx.x % LANES_N + v / N * LANES_N) * N + v % N;
}

// Accumulates `steps` rows of B, row, row + BK, ..., each times elements of A. WHOLE: all of these rows are inside, and rows of A
// beyond the last read the last, whose sums nobody writes: so no branch stands between the loads.
template <int N, bool WHOLE, class ViewA, class ViewB>
__device__ __forceinline__ void add_rows(ViewA a_view, ViewB b_view, long long steps, int row, Sum (&acc)[BM][V]) {
    const int last = a_view.rows - 1;
    if (WHOLE) a_view.rows = a_view.cols = b_view.rows = 1 << 30;   // the compiler drops the guards
#pragma unroll WHOLE && UNROLL * N > V ? UNROLL * N / V : 1
    for (long long step = 0; step < steps; ++step) {
        Sum frag_a[BM], frag_b[V];
#pragma unroll
        for (int v = 0; v < V; v += N) b_view.template read_vector_or_zero<N>(&frag_b[v], row, column<N>(v));
#pragma unroll
        for (int i = 0; i < BM; ++i) frag_a[i] = a_view.read_or_zero(WHOLE && i > last ? last : i, row);
#pragma unroll
        for (int i = 0; i < BM; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v) acc[i][v] = multiply_add(frag_a[i], frag_b[v], acc[i][v]);
        a_view.move(0, BK);
        b_view.move(BK, 0);
    }
}

// Sums the columns of a block over all of K, N elements of a row of B at a time, and writes them.
template <int N, class MatrixA, class MatrixB>
__device__ __forceinline__ void compute(const MatrixA& A, const MatrixB& B, const BlockTile& block, const ResultTile<T, TC>& c_tile,
                                        Sum (&sums)[WARPS][BM][BN]) {
    const int row = threadIdx.x / LANES_N;        // this thread's first row of B
    const long long steps = block.k / BK;         // in which all rows are inside
    auto a_view = A.tile(block.row0, 0, BM, BK);   // (BM, BK)
    auto b_view = B.tile(0, block.col0, BK, BN);   // (BK, BN)
    Sum acc[BM][V] = {};
    add_rows<N, true>(a_view, b_view, steps, row, acc);
    if (steps * BK < block.k)   // the remainder of k
        add_rows<N, false>(A.tile(block.row0, steps * BK, BM, BK), B.tile(steps * BK, block.col0, BK, BN), 1, row, acc);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < BM; ++i)
#pragma unroll
        for (int v = 0; v < V; ++v) {
#pragma unroll
            for (int offset = 16; offset >= LANES_N; offset /= 2) acc[i][v] = add(acc[i][v], shuffle_xor(acc[i][v], offset));
            if (lane < LANES_N) sums[warp][i][column<N>(v)] = acc[i][v];
        }
    __syncthreads();   // every warp's sums are written before they are added
    for (int e = threadIdx.x; e < BM * BN; e += THREADS) {
        const int i = e / BN, j = e % BN;
        Sum sum = sums[0][i][j];
#pragma unroll
        for (int other = 1; other < WARPS; ++other) sum = add(sum, sums[other][i][j]);
        c_tile.write(i, j, sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    __shared__ Sum sums[WARPS][BM][BN];   // partial sums of each warp

    const BlockTile block = locate_block(p, BM, BN);
    const auto A = matrix<T, ORDER_A>(a + block.a0, p.m, block.k, p.a);
    const auto B = matrix<T, ORDER_B>(b + block.b0, block.k, p.n, p.b);
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);   // (BM, BN)
    if (V == 1 || (ORDER_B == Order::ROWS && B.template consists_of_vectors<V>(p.n))) return compute<V>(A, B, block, c_tile, sums);
    if constexpr (1 < WORD && WORD < V && ORDER_B == Order::ROWS)
        if (B.template consists_of_vectors<WORD>(p.n)) return compute<WORD>(A, B, block, c_tile, sums);
    if constexpr (V > 1) compute<1>(A, B, block, c_tile, sums);
}
