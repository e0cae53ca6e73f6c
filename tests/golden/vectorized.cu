// tiledmm_vectorized_f32_128x128x8_nn
// Rendered by tiledmm 0.1.0 from vectorized.cu.j2: bm=128 bn=128 bk=8 tm=8 tn=8 pad=4 stages=1 unroll=8 min_blocks=2 wm=0 wn=0 lanes=1 triangle=0 tiles_per_block=1 cluster=1

#ifndef TILEDMM_SIMULATOR   // which has functions of these names for a CPU: tiledmm/simulator/native/ptx.h

// Writes contiguous elements to global memory, at a multiple of their size, up to 16 bytes at a time. The compiler would write
// them one by one where a kernel may also have to write single elements. Vector stores take consecutive registers: those of the
// sums themselves would then conflict in the mainloop (register banks). So 0 is added, which the compiler does not know to be 0.
template <class T>
__device__ __forceinline__ void store(T* global, const T& neighbours) {
    if constexpr (sizeof(T) % 8 == 0) {
        constexpr int WORDS = sizeof(T) / 4;
        const unsigned zero = blockIdx.z;   // no grid here has a third dimension
        unsigned* const to = reinterpret_cast<unsigned*>(__cvta_generic_to_global(global));
        unsigned words[WORDS];
#pragma unroll
        for (int w = 0; w < WORDS; ++w) words[w] = reinterpret_cast<const unsigned*>(&neighbours)[w] + zero;
        if constexpr (WORDS == 2) {
            asm volatile("st.global.v2.b32 [%0], { %1, %2 };" : : "l"(to), "r"(words[0]), "r"(words[1]) : "memory");
        } else {
#pragma unroll
            for (int w = 0; w < WORDS; w += 4)
                asm volatile("st.global.v4.b32 [%0], { %1, %2, %3, %4 };" ::"l"(to + w), "r"(words[w]), "r"(words[w + 1]),
                             "r"(words[w + 2]), "r"(words[w + 3])
                             : "memory");
        }
    } else {
        *global = neighbours;
    }
}

#endif

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

    // The same part, seen from (row, col).
    __device__ __forceinline__ View from(Index row, Index col) const {
        return {address(row, col), rows - row, cols - col, row_stride, col_stride};
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

    // N elements of a row: one access where they are contiguous, at a multiple of their size.
    template <int N>
    __device__ __forceinline__ void write_row(int row, int col, const Accumulator<T>* sums) const {
        const Stored* const first = data + row * row_stride + col * col_stride;
        if (row < rows && col + N <= cols && col_stride == 1 &&
            reinterpret_cast<unsigned long long>(first) % (N * sizeof(Stored)) == 0)
            return write_vector<N>(row, col, sums);
#pragma unroll
        for (int i = 0; i < N; ++i) write(row, col + i, sums[i]);
    }

    // The same where it is known that all of them are inside, contiguous, at a multiple of their size.
    template <int N>
    __device__ __forceinline__ void write_vector(int row, int col, const Accumulator<T>* sums) const {
        Vector<Stored, N> vector;
#pragma unroll
        for (int i = 0; i < N; ++i) vector.element[i] = from_accumulator<T, Stored>(sums[i]);
        store(reinterpret_cast<Vector<Stored, N>*>(data + row * row_stride + col), vector);
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
#define KERNEL tiledmm_vectorized_f32_128x128x8_nn
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
// clang-format on

constexpr int V = 16 / sizeof(Sum);   // elements of a 16-byte vector
// A tile in shared memory, K-major whichever way its matrix lies: what a thread needs for a step of k is part of a row. Rows
// that are written down a column are padded: 32 lanes access 32 banks.
template <int WIDTH, Order ORDER>
using Tile = Sum[BK][WIDTH + (ORDER == Order::COLUMNS ? 0 : PAD)];

// Copies tiles to shared memory, K-major: element (i, k) of a matrix that begins at `view` goes to tile[k][i]. A thread reads V
// contiguous elements into registers and stores them as V contiguous elements or, where they are successive k, in V rows.
template <int WIDTH, class Stored, Order ORDER>
struct TileCopies {
    static constexpr bool ALONG_K = ORDER != Order::COLUMNS;   // contiguous elements are successive k
    static_assert(WIDTH * BK % (THREADS * V) == 0 || THREADS * V % (WIDTH * BK) == 0, "even shares, in whole vectors");

    // Consecutive threads copy contiguous elements, V at a time: a thread's first ones, and how far it is to its others.
    static constexpr int ACROSS = (ALONG_K ? BK : WIDTH) / V;               // copies in a row or column
    static constexpr int TURNS = ACROSS > THREADS ? ACROSS / THREADS : 1;   // that a thread makes in each
    static constexpr int STEP = ACROSS > THREADS ? 1 : THREADS / ACROSS;    // rows or columns at a time
    static constexpr bool FEW = WIDTH * BK < THREADS * V;                   // a small tile leaves threads without a share
    static constexpr int LOADS = FEW ? 1 : WIDTH * BK / (THREADS * V);
    static_assert(ACROSS % THREADS == 0 || THREADS % ACROSS == 0, "whole rows or columns, or even parts of them");
    static constexpr int step_i(int load) { return ALONG_K ? load / TURNS * STEP : load % TURNS * THREADS * V; }
    static constexpr int step_k(int load) { return ALONG_K ? load % TURNS * THREADS * V : load / TURNS * STEP; }

    View<T, Stored, ORDER> view;   // seen from this thread's first element
    bool wide;                     // V contiguous elements are read at once
    int i, k;                      // which element that is
    Sum next[LOADS * V];

    // `line`: contiguous elements from one end of the matrix to the other.
    __device__ __forceinline__ TileCopies(const View<T, Stored, ORDER>& tile, long long line, int thread) : view(tile) {
        wide = tile.is_aligned(V * sizeof(Stored)) && line % V == 0;
        i = ALONG_K ? thread / ACROSS : thread % ACROSS * V;
        k = ALONG_K ? thread % ACROSS * V : thread / ACROSS;
        view = tile.from(i, k);
    }

    // Loads the next tile, with `left` steps of k still to come; settle() stores it.
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
                    next[load * V + v] = part.read_or_zero(di + (ALONG_K ? 0 : v), dk + (ALONG_K ? v : 0));
        }
        view.move(0, BK);
    }

    __device__ __forceinline__ void settle(Tile<WIDTH, ORDER>& tile) {
        if (FEW && (ALONG_K ? i >= WIDTH : k >= BK)) return;
#pragma unroll
        for (int load = 0; load < LOADS * V; ++load) {
            const int di = step_i(load / V) + (ALONG_K ? 0 : load % V);
            const int dk = step_k(load / V) + (ALONG_K ? load % V : 0);
            tile[k + dk][i + di] = next[load];
        }
    }
};

template <int WIDTH, class Stored, Order ORDER>
__device__ __forceinline__ TileCopies<WIDTH, Stored, ORDER> tile_copies(const View<T, Stored, ORDER>& tile, long long line,
                                                                        int thread) {
    return {tile, line, thread};
}

// Reads a thread's share of a row of a tile: COUNT elements, V contiguous ones at a time, LANES * V apart.
template <int COUNT, int LANES>
__device__ __forceinline__ void read_fragment(Sum (&fragment)[COUNT], const Sum* row) {
#pragma unroll
    for (int c = 0; c < COUNT; c += V) {
        const auto vector = *reinterpret_cast<const Vector<Sum, V>*>(row + c * LANES);
#pragma unroll
        for (int v = 0; v < V; ++v) fragment[c + v] = vector.element[v];
    }
}

// vectorized: as register_tiled, with 16-byte vector accesses (float4) to and from global and shared memory.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of (BLOCK_X, BLOCK_Y) threads a (BM, BN) tile of C
// Shared    sizeof(Sum) * BK * (BM + BN), and PAD a row of a tile that is transposed on the way          Barriers  2 per K step
// Requires  each thread as many elements of a tile as another, in whole vectors
// Source    S. Boehm, "How to optimize a CUDA matmul kernel for cuBLAS-like performance" (2022)
//
// A 16-byte load is one instruction where there were four, and the load pipe takes instructions one at a time. For that a
// thread's elements of C are contiguous V by V, V = 16 / sizeof(Sum), and V by V far apart.
//
// Global loads are vectors where each row (or column) is 16-byte aligned and has a multiple of V elements; else elements.
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

    auto a_copies = tile_copies<BM>(A.tile(block.row0, 0, BM, BK), ORDER_A == Order::ROWS ? block.k : p.m, thread);
    auto b_copies = tile_copies<BN>(B.tile(0, block.col0, BK, BN).transposed(), ORDER_B == Order::ROWS ? p.n : block.k, thread);

    Sum acc[TM][TN] = {};   // (TM, TN)  V neighbours at a time, BLOCK_Y * V rows and BLOCK_X * V columns apart
#pragma unroll 1   // laid out several times, it would only cost registers
    for (long long left = block.k; left > 0; left -= BK) {
        a_copies.fetch(left);
        b_copies.fetch(left);
        a_copies.settle(As);
        b_copies.settle(Bs);
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
