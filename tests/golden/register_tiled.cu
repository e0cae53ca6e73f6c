// tiledmm_register_tiled_f32_128x128x8_nn
// Rendered by tiledmm 0.1.0 from register_tiled.cu.j2: bm=128 bn=128 bk=8 tm=8 tn=8 pad=4 stages=1 unroll=8 min_blocks=2 wm=0 wn=0 lanes=1 triangle=0 tiles_per_block=1 cluster=1

using float32 = float;

// What products of two elements are summed in (declared to be looked up, never called).
__device__ float32 sum_type(float32);
template <class T>
using Accumulator = decltype(sum_type(T{}));

__device__ __forceinline__ float32 multiply_add(float32 a, float32 b, float32 sum) { return __fmaf_ieee_rn(a, b, sum); }

// A stored element, ready to be multiplied, and a finished sum as it is stored: here they are the same.
template <class T>
__device__ __forceinline__ T to_accumulator(T x) { return x; }
template <class T, class Stored>
__device__ __forceinline__ Stored from_accumulator(T sum) { return sum; }

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

// The tile of a block. Rasterization: down C's columns, then along its rows; blocks that run together share a strip of B.
__device__ __forceinline__ BlockTile locate_block(const Problem& p, int bm, int bn, unsigned number = blockIdx.x) {
    const unsigned rows = static_cast<unsigned>(p.tiles_m), tiles = rows * static_cast<unsigned>(p.tiles_n);   // of one product
    const unsigned product = number / tiles, index = number - product * tiles, col = index / rows;
    return tile_at(p, product, index - col * rows, col, bm, bn);
}

// How many of `size` rows or columns from `first` on lie inside a matrix that has `extent` of them.
__device__ __forceinline__ int inside(long long extent, long long first, int size) {
    const long long left = extent - first;
    return left < size ? static_cast<int>(left) : size;
}

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

    // Moves on over the matrix. How much may be used from there is for the caller to say.
    __device__ __forceinline__ void move(int down, int right) { data = address(down, right); }

    // The element at (row, col), or zero beyond the edge, which adds nothing to any sum.
    __device__ __forceinline__ Accumulator<T> read_or_zero(int row, int col) const {
        return row < rows && col < cols ? to_accumulator<T>(*address(row, col)) : Accumulator<T>{};
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
};

// Block's tile of (height, width) elements of C.
template <class T, class Stored>
__device__ __forceinline__ ResultTile<T, Stored> result_tile(Stored* data, const Problem& p, const BlockTile& block,
                                                             int height, int width) {
    return {data + block.c0 + block.row0 * p.c.row + block.col0 * p.c.col, inside(p.m, block.row0, height),
            inside(p.n, block.col0, width), p.c.row, p.c.col};
}

// clang-format off
#define KERNEL tiledmm_register_tiled_f32_128x128x8_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // what elements are converted to, and multiplied as
using Sum = Accumulator<T>;   // what their products are summed in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 128;   // rows of C a block computes
constexpr int BN = 128;   // columns of C a block computes
constexpr int BK = 8;   // step along K: how much of A's columns and B's rows is in shared memory at a time
constexpr int TM = 8;   // rows of C a thread computes
constexpr int TN = 8;   // columns of C a thread computes
constexpr int PAD = 4;   // elements added to each row of a shared tile
constexpr int UNROLL = 8;   // steps of the inner loop laid out in full: all of BK, or as many as compile fast
constexpr int BLOCK_X = BN / TN;
constexpr int BLOCK_Y = BM / TM;
constexpr int THREADS = BLOCK_X * BLOCK_Y;
constexpr bool FITS = __CUDA_ARCH__ != 800 && __CUDA_ARCH__ < 1000;   // others spill
constexpr int MIN_BLOCKS = FITS ? 2 : 1;   // that an SM must hold: bounds registers
constexpr int LOADS_A = BM * BK / THREADS;   // elements of an A tile that a thread copies
constexpr int LOADS_B = BK * BN / THREADS;   // elements of a B tile that a thread copies
constexpr int A_STEP_M = THREADS / BK, A_STEP_K = 0;   // from one of its elements of an A tile to the next
constexpr int B_STEP_K = THREADS / BN, B_STEP_N = 0;   // from one of its elements of a B tile to the next
// clang-format on

// register_tiled: a thread computes TM by TN elements of C, from TM of A and TN of B that it reads into registers.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of (BLOCK_X, BLOCK_Y) threads a (BM, BN) tile of C
// Shared    sizeof(Sum) * BK * (BM + BN), and PAD a row of a tile that is transposed on the way          Barriers  2 per K step
// Requires  whole rows or columns of both tiles for THREADS to copy at a time
// Source    Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008)
//
// The rungs before read two elements from shared memory for a multiply-add, or little less. Here TM + TN elements serve
// TM * TN of them: 16 for 64. That is also why the tile of C is larger, and its step along K smaller: 256 threads have a
// tile of 128 by 128 between them.
//
// Both tiles are kept K-major, so that a step of k reads one row of each. A matrix whose rows (of A) or columns (of B) are
// contiguous is transposed on the way: successive threads write down a column of the tile, whose rows are padded so that
// 32 lanes meet 32 banks.
static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "every thread copies the same number of elements");
static_assert(THREADS % BM == 0 && THREADS % BN == 0 && THREADS % BK == 0, "and they lie whole rows or columns apart");

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    __shared__ alignas(16) Sum As[BK][BM + PAD];   // (BK, BM)
    __shared__ alignas(16) Sum Bs[BK][BN];   // (BK, BN)
    const BlockTile block = locate_block(p, BM, BN);
    const Matrix<T, TA, ORDER_A> A = {a + block.a0, p.m, block.k, p.a.row, p.a.col};
    const Matrix<T, TB, ORDER_B> B = {b + block.b0, block.k, p.n, p.b.row, p.b.col};
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);   // (BM, BN)

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int thread = ty * BLOCK_X + tx;

    // The first elements that this thread copies: consecutive threads, consecutive addresses.
    const int a_m = thread / BK;
    const int a_k = thread % BK;
    const int b_k = thread / BN;
    const int b_n = thread % BN;
    auto a_view = A.tile(block.row0, 0, BM, BK).from(a_m, a_k);
    auto b_view = B.tile(0, block.col0, BK, BN).from(b_k, b_n);
    Sum acc[TM][TN] = {};   // (TM, TN)  rows ty, ty + BLOCK_Y, ...  columns tx, tx + BLOCK_X, ...
#pragma unroll 1   // laid out several times, it would only cost registers
    for (long long left = block.k; left > 0; left -= BK) {
#pragma unroll
        for (int load = 0; load < LOADS_A; ++load) {
            const int m = load * A_STEP_M, k = load * A_STEP_K;
            As[a_k + k][a_m + m] = a_view.read_or_zero(m, k);
        }
#pragma unroll
        for (int load = 0; load < LOADS_B; ++load) {
            const int k = load * B_STEP_K, n = load * B_STEP_N;
            Bs[b_k + k][b_n + n] = b_view.read_or_zero(k, n);
        }
        a_view.move(0, BK);   // on to the next tiles, of which so many steps of k are inside
        b_view.move(BK, 0);
        const int depth = inside(left - BK, 0, BK);
        a_view.cols = depth - a_k;
        b_view.rows = depth - b_k;
        __syncthreads();   // both tiles are complete before anyone reads them

#pragma unroll UNROLL
        for (int k = 0; k < BK; ++k) {
            Sum frag_a[TM], frag_b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) frag_a[i] = As[k][ty + i * BLOCK_Y];
#pragma unroll
            for (int j = 0; j < TN; ++j) frag_b[j] = Bs[k][tx + j * BLOCK_X];
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
        for (int j = 0; j < TN; ++j)
            c_tile.write(ty + i * BLOCK_Y, tx + j * BLOCK_X, acc[i][j]);
}
