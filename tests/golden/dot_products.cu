// tiledmm_dot_products_f32_4x8x128_nn
// Rendered by tiledmm 0.1.0 from dot_products.cu.j2: bm=4 bn=8 bk=128 tm=4 tn=2 pad=0 stages=0 unroll=1 min_blocks=1 wm=0 wn=0 lanes=32 triangle=0 tiles_per_block=1 cluster=1

#ifndef TILEDMM_SIMULATOR   // which has functions of these names for a CPU: tiledmm/simulator/native/ptx.h

// ---- conversions and arithmetic in which subnormals are kept, rounded to nearest even. CuPy compiles with -ftz=true, under
// which plain C++ flushes them to zero; inline PTX and the *_ieee_* intrinsics are not touched by that, and cuBLAS keeps them ----

__device__ __forceinline__ float add(float x, float y) {
    float sum;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(x), "f"(y));
    return sum;
}

#endif

using float32 = float;

// What products of two elements are summed in (declared to be looked up, never called).
__device__ float32 sum_type(float32);
template <class T>
using Accumulator = decltype(sum_type(T{}));

__device__ __forceinline__ float32 multiply_add(float32 a, float32 b, float32 sum) { return __fmaf_ieee_rn(a, b, sum); }

// The sum of the lane whose index differs in the bits of `apart`. Every lane of the warp takes part.
template <class Word>
__device__ __forceinline__ Word shuffle_xor(Word x, int apart) {
    return __shfl_xor_sync(0xffffffffu, x, apart);
}

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

    // N contiguous elements from (row, col) on, at a multiple of their size: all are inside, or none.
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
#define KERNEL tiledmm_dot_products_f32_4x8x128_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // what elements are converted to, and multiplied as
using Sum = Accumulator<T>;   // what their products are summed in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 4;   // rows of C a block computes
constexpr int BN = 8;   // columns of C a block computes
constexpr int BK = 128;   // step along K: what the lanes of a warp read at a time, 16 bytes each
constexpr int TM = 4;   // rows of C a warp computes
constexpr int TN = 2;   // columns of C a warp computes
constexpr int UNROLL = 1;   // steps along K whose loads are in flight together
constexpr int WARPS_N = BN / TN;
constexpr int THREADS = 32 * (BM / TM) * WARPS_N;
constexpr int V = BK / 32;   // neighbours along K that a lane reads
// clang-format on

// dot_products: each warp computes a few elements of C, and its lanes share k. For a C of few rows or columns.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of THREADS threads a (BM, BN) tile of C; a warp of it (TM, TN)          Shared  none          Barriers  none
// Requires  nothing; fast where A's rows and B's columns are contiguous
// Source    CUDA C++ Programming Guide, "Warp shuffle functions"
//
// A matrix times a vector does one multiply-add for each element it reads: nothing is to be gained from reading it
// twice faster. So there are no tiles. A warp walks along k, 512 bytes of a row of A and of a column of B at a time,
// keeps TM * TN sums a lane, and adds up the lanes' at the end. The larger operand is read once; the other comes from L1.
static_assert(V * 32 == BK, "a warp reads neighbours");

// Reads V neighbours along a row, from (row, 0) on.
template <class Stored, Order ORDER>
__device__ __forceinline__ void read_neighbours(const View<T, Stored, ORDER>& view, bool wide, int row, Sum (&values)[V]) {
    if (wide)
        view.template read_vector_or_zero<V>(values, row, 0);
    else
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] = view.read_or_zero(row, v);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    const BlockTile block = locate_block(p, BM, BN);
    const Matrix<T, TA, ORDER_A> A = {a + block.a0, p.m, block.k, p.a.row, p.a.col};
    const Matrix<T, TB, ORDER_B> B = {b + block.b0, block.k, p.n, p.b.row, p.b.col};
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int m0 = warp / WARPS_N * TM, n0 = warp % WARPS_N * TN;   // this warp's first row and column of C
    auto a_view = A.tile(block.row0 + m0, 0, TM, BK);                // (TM, BK)
    auto b_view = B.tile(0, block.col0 + n0, BK, TN).transposed();   // (TN, BK)
    if (a_view.rows <= 0 || b_view.rows <= 0) return;                // the whole warp: nobody waits for its lanes
    const bool even = block.k % V == 0;
    const bool wide_a = ORDER_A == Order::ROWS && even && a_view.is_aligned(V * sizeof(TA));
    const bool wide_b = ORDER_B == Order::COLUMNS && even && b_view.is_aligned(V * sizeof(TB));
    a_view.move(0, lane * V);
    b_view.move(0, lane * V);

    Sum acc[TM][TN] = {};
#pragma unroll UNROLL
    for (long long left = block.k; left > 0; left -= BK) {
        a_view.cols = b_view.cols = inside(left, 0, BK) - lane * V;
        Sum frag_a[TM][V], frag_b[TN][V];
#pragma unroll
        for (int j = 0; j < TN; ++j) read_neighbours(b_view, wide_b, j, frag_b[j]);
#pragma unroll
        for (int i = 0; i < TM; ++i) read_neighbours(a_view, wide_a, i, frag_a[i]);
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] = multiply_add(frag_a[i][v], frag_b[j][v], acc[i][j]);
        a_view.move(0, BK);
        b_view.move(0, BK);
    }

#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) {
#pragma unroll
            for (int apart = 16; apart > 0; apart /= 2) acc[i][j] = add(acc[i][j], shuffle_xor(acc[i][j], apart));
            if (lane == (i * TN + j) % 32) c_tile.write(m0 + i, n0 + j, acc[i][j]);   // every lane has every sum
        }
}
