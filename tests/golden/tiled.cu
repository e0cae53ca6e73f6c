// tiledmm_tiled_f32_32x32x32_nn
// Rendered by tiledmm 0.1.0 from tiled.cu.j2: bm=32 bn=32 bk=32 tm=1 tn=1 pad=0 stages=1 unroll=32 min_blocks=2 wm=0 wn=0 lanes=1 triangle=0 tiles_per_block=1 cluster=1

// Maximum resident threads of an SM.
#if __CUDA_ARCH__ == 750
#define TILEDMM_SM_THREADS 1024
#elif __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
#define TILEDMM_SM_THREADS 1536
#else
#define TILEDMM_SM_THREADS 2048
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

    // Moves (0, 0); the caller updates rows and cols.
    __device__ __forceinline__ void move(int down, int right) { data = address(down, right); }

    // The element at (row, col), or zero outside, which adds nothing to a sum.
    __device__ __forceinline__ Accumulator<T> read_or_zero(int row, int col) const {
        return row < rows && col < cols ? to_accumulator<T>(*address(row, col)) : Accumulator<T>{};
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
};

// The block's tile of (height, width) elements of C.
template <class T, class Stored>
__device__ __forceinline__ ResultTile<T, Stored> result_tile(Stored* data, const Problem& p, const BlockTile& block,
                                                             int height, int width) {
    return {data + block.c0 + block.row0 * p.c.row + block.col0 * p.c.col, inside(p.m, block.row0, height),
            inside(p.n, block.col0, width), p.c.row, p.c.col};
}

// clang-format off
#define KERNEL tiledmm_tiled_f32_32x32x32_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 32;   // rows of C a block computes
constexpr int BN = 32;   // columns of C a block computes
constexpr int BK = 32;   // step along K: how much of A's columns and B's rows is in shared memory at a time
constexpr int UNROLL = 32;   // steps of the inner loop that are unrolled: BK, or as many as compile fast
constexpr int BLOCK_X = BN;
constexpr int BLOCK_Y = BM;
constexpr int THREADS = BLOCK_X * BLOCK_Y;
constexpr bool FITS = 2 * THREADS <= TILEDMM_SM_THREADS && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ < 1000;   // others spill
constexpr int MIN_BLOCKS = FITS ? 2 : 1;   // resident on an SM: bounds registers
// clang-format on

// tiled: a block loads square tiles of A and B to shared memory, where each element is used BM or BN times.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of (BLOCK_X, BLOCK_Y) threads per (BM, BN) tile of C
// Shared    sizeof(Sum) * (BM * BK + BK * BN)          Barriers  2 per K step
// Requires  THREADS threads copy whole rows or columns of both tiles at a time
// Source    CUDA C++ Programming Guide, "Shared memory"; Best Practices Guide, "Shared memory and memory banks"
//
// A tile keeps the order of its matrix in memory. Consecutive threads therefore read consecutive addresses in every layout, and
// no tile is transposed between the load and the store.
static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "every thread copies the same number of elements");
static_assert(THREADS % BM == 0 && THREADS % BN == 0 && THREADS % BK == 0, "a thread's elements lie whole rows or columns apart");

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    const BlockTile block = locate_block(p, BM, BN);
    const Matrix<T, TA, ORDER_A> A = {a + block.a0, p.m, block.k, p.a.row, p.a.col};
    const Matrix<T, TB, ORDER_B> B = {b + block.b0, block.k, p.n, p.b.row, p.b.col};
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);   // (BM, BN)

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int thread = ty * BLOCK_X + tx;

    // The shared tiles, and the first element of each that this thread copies: consecutive threads, consecutive addresses.
    __shared__ alignas(16) Sum As[BM][BK];   // (BM, BK)
    const int a_m = thread / BK, a_k = thread % BK;
    __shared__ alignas(16) Sum Bs[BK][BN];   // (BK, BN)
    const int b_k = thread / BN, b_n = thread % BN;
    auto a_view = A.tile(block.row0, 0, BM, BK).from(a_m, a_k);
    auto b_view = B.tile(0, block.col0, BK, BN).from(b_k, b_n);

    Sum acc = {};
#pragma unroll 1   // unrolled it would only cost registers
    for (long long left = block.k; left > 0; left -= BK) {
        As[a_m][a_k] = a_view.read_or_zero(0, 0);
        Bs[b_k][b_n] = b_view.read_or_zero(0, 0);
        a_view.move(0, BK);   // on to the next tiles; k beyond the end is outside
        b_view.move(BK, 0);
        const int depth = inside(left - BK, 0, BK);
        a_view.cols = depth - a_k;
        b_view.rows = depth - b_k;
        __syncthreads();   // both tiles are complete before anyone reads them

#pragma unroll UNROLL
        for (int k = 0; k < BK; ++k) {
            const Sum frag_a = As[ty][k];
            const Sum frag_b = Bs[k][tx];
            acc = multiply_add(frag_a, frag_b, acc);
        }
        __syncthreads();   // everyone has read the tiles before the next ones overwrite them
    }

    c_tile.write(ty, tx, acc);
}
