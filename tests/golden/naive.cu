// tiledmm_naive_f32_32x16x1_nn
// Rendered by tiledmm 0.1.0 from naive.cu.j2: bm=32 bn=16 bk=1 tm=1 tn=1 pad=0 stages=0 unroll=8 min_blocks=1 wm=0 wn=0 lanes=1 triangle=0 tiles_per_block=1 cluster=1

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

    // The element at (row, col), which must be inside.
    __device__ __forceinline__ Accumulator<T> read(Index row, Index col) const { return to_accumulator<T>(*address(row, col)); }
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
#define KERNEL tiledmm_naive_f32_32x16x1_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // what elements are converted to, and multiplied as
using Sum = Accumulator<T>;   // what their products are summed in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 32;   // rows of C a block computes: 32, a warp
constexpr int BN = 16;   // columns of C a block computes: 8 to 32
constexpr int UNROLL = 8;   // steps along K whose loads are in flight together
// clang-format on

// naive: one thread per element of C, and a warp walks down a column of C.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of (BM, BN) threads a (BM, BN) tile of C          Shared  none          Barriers  none
// Requires  nothing
// Source    CUDA C++ Programming Guide, "Matrix multiplication without shared memory"
//
// threadIdx.x, which numbers the lanes of a warp, selects the ROW: at every k the 32 lanes read 32 rows of A and, at the end,
// write 32 rows of C. In row-major matrices these are 32 sectors, where one access of 128 consecutive bytes would do.
static_assert(BM * BN <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void __launch_bounds__(BM * BN, 1)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    const BlockTile block = locate_block(p, BM, BN);
    const Matrix<T, TA, ORDER_A> A = {a + block.a0, p.m, block.k, p.a.row, p.a.col};
    const Matrix<T, TB, ORDER_B> B = {b + block.b0, block.k, p.n, p.b.row, p.b.col};
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);

    const int row = threadIdx.x;
    const int col = threadIdx.y;
    if (row >= c_tile.rows || col >= c_tile.cols) return;

    Sum sum = {};
#pragma unroll UNROLL
    for (long long k = 0; k < block.k; ++k) sum = multiply_add(A.read(block.row0 + row, k), B.read(k, block.col0 + col), sum);
    c_tile.write(row, col, sum);
}
