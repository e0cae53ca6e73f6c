// tiledmm_block_dot_products_f32_1x2x1024_nn
// Rendered by tiledmm 0.1.0 from dot_products.cu.j2: bm=1 bn=2 bk=1024 tm=1 tn=2 pad=0 stages=0 unroll=4 min_blocks=1 wm=0 wn=0 lanes=256 triangle=0 tiles_per_block=1 cluster=1

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

    // Whether N elements from a multiple of N on are contiguous, aligned to their size, and all inside or all outside. `length`:
    // contiguous elements of a row, or column, of the matrix.
    template <int N>
    __device__ __forceinline__ bool consists_of_vectors(long long length) const {
        return is_aligned(N * sizeof(Stored)) && length % N == 0;
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
};

// The block's tile of (height, width) elements of C.
template <class T, class Stored>
__device__ __forceinline__ ResultTile<T, Stored> result_tile(Stored* data, const Problem& p, const BlockTile& block,
                                                             int height, int width) {
    return {data + block.c0 + block.row0 * p.c.row + block.col0 * p.c.col, inside(p.m, block.row0, height),
            inside(p.n, block.col0, width), p.c.row, p.c.col};
}

// clang-format off
#define KERNEL tiledmm_block_dot_products_f32_1x2x1024_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 1;   // rows of C a block computes
constexpr int BN = 2;   // columns of C a block computes
constexpr int BK = 1024;   // step along K: the threads of a block read 16 bytes each
constexpr int TM = BM, TN = BN;   // a thread has sums of all of them
constexpr int UNROLL = 4;   // steps along K whose loads are in flight together
constexpr int LANES = 256, THREADS = LANES;   // threads that share k
constexpr int MIN_BLOCKS = 1;   // resident on an SM: bounds registers, unless it is 0
constexpr int V = BK / LANES;   // elements along K that a lane reads, contiguous if they can be read at once
constexpr int WIDER = sizeof(TA) > sizeof(TB) ? sizeof(TA) : sizeof(TB);
constexpr int WORD = WIDER < 4 ? 4 / WIDER : 1;   // elements of 4 bytes, read at once if no more can be
// clang-format on

// block_dot_products: each block computes a few elements of C, whose threads share k. For a C with few elements, each a long sum.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of THREADS threads per (BM, BN) tile of C          Shared  THREADS / 32 * BM * BN * sizeof(Sum)          Barriers  1
// Requires  nothing; fast where A's rows and B's columns are contiguous
// Source    CUDA C++ Programming Guide, "Warp shuffle functions"
//
// As dot_products, but where C has few elements, a warp for each would leave SMs with too few loads in flight. So all warps of a block
// share k, 4 KiB of a row of A and of a column of B at a time, and their sums are added up in shared memory. Split-K partitions would
// need a second launch.
static_assert(V * LANES == BK, "successive lanes read contiguous elements");

// A lane's steps of k of a tile: V / N groups of N contiguous ones, read at once. Successive lanes read contiguous groups.
template <int N>
__device__ __forceinline__ int step(int lane, int v) {
    return (lane + v / N * LANES) * N + v % N;
}

// Reads V elements of a row, N at a time.
template <int N, class View>
__device__ __forceinline__ void read_row(const View& view, int row, int lane, Sum (&values)[V]) {
#pragma unroll
    for (int v = 0; v < V; v += N) view.template read_vector_or_zero<N>(&values[v], row, step<N>(lane, v));
}

// Accumulates elements of C, N elements of a row of A and of a column of B at a time.
template <int N, class ViewA, class ViewB>
__device__ __forceinline__ void multiply(const ViewA& a_view, const ViewB& b_view, int steps, int lane, Sum (&acc)[TM][TN]) {
    const auto add_products = [&](ViewA a_part, ViewB b_part, int left) {
        a_part.cols = b_part.cols = left;
        Sum frag_a[TM][V], frag_b[TN][V];
#pragma unroll
        for (int j = 0; j < TN; ++j) read_row<N>(b_part, j, lane, frag_b[j]);
#pragma unroll
        for (int i = 0; i < TM; ++i) read_row<N>(a_part, i, lane, frag_a[i]);
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] = multiply_add(frag_a[i][v], frag_b[j][v], acc[i][j]);
    };
    int k = 0;
#pragma unroll UNROLL   // no branch stands between the loads: those of UNROLL steps are in flight together
    for (; k + BK <= steps; k += BK) add_products(a_view.from(0, k), b_view.from(0, k), 1 << 30);   // the compiler drops the guards
    if (k < steps) add_products(a_view.from(0, k), b_view.from(0, k), steps - k);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    const BlockTile block = locate_block(p, BM, BN);
    const Matrix<T, TA, ORDER_A> A = {a + block.a0, p.m, block.k, p.a.row, p.a.col};
    const Matrix<T, TB, ORDER_B> B = {b + block.b0, block.k, p.n, p.b.row, p.b.col};
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);

    const int lane = threadIdx.x, m0 = 0, n0 = 0;                          // the block's first row and column of C
    const auto a_view = A.tile(block.row0 + m0, 0, TM, BK);                // (TM, BK)
    const auto b_view = B.tile(0, block.col0 + n0, BK, TN).transposed();   // (TN, BK)
    const int steps = static_cast<int>(block.k);

    __shared__ Sum sums[THREADS / 32][TM][TN];   // of each warp

    Sum acc[TM][TN] = {};
    constexpr bool CONTIGUOUS = ORDER_A == Order::ROWS && ORDER_B == Order::COLUMNS;   // along k
    if (V == 1 || (CONTIGUOUS && a_view.template consists_of_vectors<V>(block.k) && b_view.template consists_of_vectors<V>(block.k)))
        multiply<V>(a_view, b_view, steps, lane, acc);
    else if (CONTIGUOUS && WORD > 1 && a_view.template consists_of_vectors<WORD>(block.k) && b_view.template consists_of_vectors<WORD>(block.k))
        multiply<WORD>(a_view, b_view, steps, lane, acc);
    else
        multiply<1>(a_view, b_view, steps, lane, acc);

#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) {
#pragma unroll
            for (int offset = 16; offset > 0; offset /= 2) acc[i][j] = add(acc[i][j], shuffle_xor(acc[i][j], offset));
            if (lane % 32 == 0) sums[lane / 32][i][j] = acc[i][j];
        }
    __syncthreads();   // every warp's sums are written before they are added
    if (lane >= TM * TN) return;
    Sum sum = sums[0][lane / TN][lane % TN];
#pragma unroll
    for (int warp = 1; warp < THREADS / 32; ++warp) sum = add(sum, sums[warp][lane / TN][lane % TN]);
    c_tile.write(lane / TN, lane % TN, sum);
}
