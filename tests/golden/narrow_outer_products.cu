// tiledmm_narrow_outer_products_f32_1024x64x4_nn
// Rendered by tiledmm 0.1.0 from narrow_outer_products.cu.j2: bm=1024 bn=64 bk=4 tm=256 tn=1 pad=0 stages=0 unroll=4 min_blocks=1 wm=0 wn=0 lanes=1 triangle=0 tiles_per_block=1 cluster=1

using float32 = float;

// The type that products of two elements are accumulated in.
template <class T>
using Accumulator = T;

__device__ __forceinline__ float32 multiply_add(float32 a, float32 b, float32 sum) { return __fmaf_ieee_rn(a, b, sum); }

template <class A, class B>
constexpr bool SAME = false;
template <class A>
constexpr bool SAME<A, A> = true;

// A compile-time value as an argument, so that a generic lambda is compiled once for each.
template <bool VALUE>
struct Constant {
    static constexpr bool value = VALUE;
    constexpr __device__ operator bool() const { return VALUE; }
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
#define KERNEL tiledmm_narrow_outer_products_f32_1024x64x4_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 1024;   // rows of C a block computes
constexpr int BN = 64;   // columns of C a block computes, at most
constexpr int BK = 4;   // steps of k whose elements of B are in registers
constexpr int WORD = 1;   // elements of C written at once: 4 bytes, or one element
constexpr int UNROLL = 4;   // words whose elements of A are loaded together
constexpr int MIN_BLOCKS = 1;   // resident on an SM: bounds registers
constexpr int THREADS = BM / 256 * (BN / WORD);
// clang-format on

// narrow_outer_products: outer products for a C of few columns, whose rows a block computes as one array of words.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of THREADS threads per (BM, BN) tile of C          Shared  none          Barriers  none
// Requires  nothing; slow if K > BK, N > BN, or C's rows do not follow each other without gaps
// Source    BLAS, "GER", the rank-1 update
//
// A warp that walks down rows of 30 columns, as in outer_products, leaves most of its lanes idle, and its stores are short. Here
// successive threads write successive words of C, whichever rows they lie in. From one of its words to its next, a thread steps over
// whole rows: all its words have the same columns, so that it keeps their elements of B in registers. Only elements of A are loaded for
// each word, K contiguous ones at a time where A's rows are aligned.
static_assert(BN <= THREADS, "a row's words have threads of their own");

// Elements of a row of A, or of a column of B, as they are multiplied.
struct Fragment {
    Sum element[BK];
};

// Reads BK elements of the first row of a view, zeros outside. N: contiguous elements that are loaded at a time.
template <int N, class View>
__device__ __forceinline__ Fragment read_row(const View& view) {
    Fragment fragment = {};
#pragma unroll
    for (int k = 0; k < BK; k += N) view.template read_vector_or_zero<N>(&fragment.element[k], 0, k);
    return fragment;
}

__device__ __forceinline__ Sum dot_product(const Fragment& a, const Fragment& b) {
    Sum sum = {};
#pragma unroll
    for (int k = 0; k < BK; ++k) sum = multiply_add(a.element[k], b.element[k], sum);
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    const BlockTile block = locate_block_by_rows(p, BM, BN);
    const auto A = matrix<T, ORDER_A>(a + block.a0, p.m, block.k, p.a);
    const auto B = matrix<T, ORDER_B>(b + block.b0, block.k, p.n, p.b);
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);
    const int cols = c_tile.cols, elements = c_tile.rows * cols;   // of C, row by row
    const bool dense = c_tile.row_stride == cols && (c_tile.col_stride == 1 || cols == 1);
    int before = elements;   // those before the first whole word
    if (block.k <= BK && dense) before = min(before, static_cast<int>(-(reinterpret_cast<long long>(c_tile.data) / sizeof(TC)) & (WORD - 1)));
    const int words = (elements - before) / WORD;

    // Columns of words repeat after this many rows. From one of its words to the next, a thread steps over a multiple of these.
    const int repeat = cols % WORD == 0 ? 1 : cols % 2 == 0 ? WORD / 2 : WORD;
    const int down = THREADS / (repeat * cols / WORD) * repeat;
    const int stride = down * cols / WORD;
    constexpr int V = sizeof(TA) * BK < 16 ? BK : 16 / sizeof(TA);   // elements of A that one instruction loads
    const auto a_view = A.tile(block.row0, 0, BM, BK);                   // (BM, BK)
    const auto b_view = B.tile(0, block.col0, BK, BN).transposed();      // (BN, BK)
    const auto walk = [&](auto vectors) {
        constexpr int N = vectors.value ? V : 1;
        Fragment frag_b[WORD];
        View<T, TA, ORDER_A> a_row[WORD];
        int row[WORD], col[WORD];
        row[0] = (before + static_cast<int>(threadIdx.x) * WORD) / cols;
        col[0] = before + static_cast<int>(threadIdx.x) * WORD - row[0] * cols;
#pragma unroll
        for (int i = 0; i < WORD; ++i) {
            if (i > 0) {
                row[i] = col[i - 1] + 1 < cols ? row[i - 1] : row[i - 1] + 1;
                col[i] = col[i - 1] + 1 < cols ? col[i - 1] + 1 : 0;
            }
            frag_b[i] = read_row<1>(b_view.from(col[i], 0));
            a_row[i] = a_view.from(row[i], 0);
        }
        const long long step = a_view.address(down, 0) - a_view.data;
        TC* next = c_tile.data + before + threadIdx.x * WORD;
#pragma unroll 1   // unrolled it would only cost registers
        for (int word = threadIdx.x; word < words; word += UNROLL * stride) {
            Fragment frag_a[UNROLL][WORD];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
#pragma unroll
                for (int i = 0; i < WORD; ++i) {
                    a_row[i].rows = word + u * stride < words;
                    frag_a[u][i] = read_row<N>(a_row[i]);
                    a_row[i].data += step;
                }
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                Vector<TC, WORD> finished;
#pragma unroll
                for (int i = 0; i < WORD; ++i) {
                    const Sum sum = dot_product(frag_a[u][i], frag_b[i]);
                    finished.element[i] = from_accumulator<T, TC>(sum);
                    row[i] += down;
                }
                if (word + u * stride < words) *reinterpret_cast<Vector<TC, WORD>*>(next) = finished;
                next += stride * WORD;
            }
        }
    };
    constexpr bool VECTORS = V > 1 && ORDER_A == Order::ROWS && SAME<TA, T>;
    if (threadIdx.x < stride && words > 0) {
        if (VECTORS && a_view.template consists_of_vectors<V>(block.k)) walk(Constant<VECTORS>{});
        else walk(Constant<false>{});
    }

    // Elements before the first whole word and after the last one.
    for (int i = threadIdx.x; i < elements - words * WORD; i += THREADS) {
        const int element = i < before ? i : i + words * WORD, row = element / cols, col = element - row * cols;
        Sum sum = {};
        for (long long k = 0; k < block.k; ++k) {
            const Sum of_b = B.tile(k, block.col0, 1, BN).read_or_zero(0, col);
            sum = multiply_add(A.tile(block.row0, k, BM, 1).read_or_zero(row, 0), of_b, sum);
        }
        c_tile.write(row, col, sum);
    }
}
