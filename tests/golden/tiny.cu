// tiledmm_tiny_f32_8x8x8_nn
// Rendered by tiledmm 0.1.0 from tiny.cu.j2: bm=8 bn=8 bk=8 tm=2 tn=4 pad=8 stages=1 unroll=8 min_blocks=5 wm=0 wn=0 lanes=1 triangle=0 tiles_per_block=16 cluster=1

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

// How many tiles a launch computes.
__device__ __forceinline__ long long tiles_to_compute(const Problem& p) { return p.tiles; }

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

    // The element at (row, col), which must be inside.
    __device__ __forceinline__ Accumulator<T> read(Index row, Index col) const { return to_accumulator<T>(*address(row, col)); }

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

template <class T, Order ORDER, class Stored>
__device__ __forceinline__ Matrix<T, Stored, ORDER> matrix(const Stored* data, long long rows, long long cols,
                                                           const Strides& strides) {
    return {data, rows, cols, strides.row, strides.col};
}

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
#define KERNEL tiledmm_tiny_f32_8x8x8_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // what elements are converted to, and multiplied as
using Sum = Accumulator<T>;   // what their products are summed in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 8;   // rows of C a group of threads computes
constexpr int BN = 8;   // columns of C a group computes
constexpr int BK = 8;   // step along K: how much of A's columns and B's rows is in shared memory at a time
constexpr int TM = 2;   // rows of C a thread computes
constexpr int TN = 4;   // columns of C a thread computes
constexpr int PAD = 8;   // elements added to each shared tile, so that the groups of a warp meet different banks
constexpr int UNROLL = 8;   // steps of the inner loop laid out in full
constexpr int TILES_PER_BLOCK = 16;   // groups of a block: each computes a tile, of one product or of several
constexpr int LANES_N = BN / TN;
constexpr int GROUP = BM / TM * LANES_N;   // threads of a group
constexpr int THREADS = GROUP * TILES_PER_BLOCK;
constexpr bool FITS = __CUDA_ARCH__ != 800 && __CUDA_ARCH__ < 1000;   // others spill
constexpr int MIN_BLOCKS = FITS ? 5 : 1;   // that an SM must hold: bounds registers
// clang-format on

// tiny: a warp, or a part of one, computes a tile of C, and a block many of them. For batches of small products.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of THREADS threads TILES_PER_BLOCK tiles of C, (BM, BN) each; a thread of a tile (TM, TN)
// Shared    TILES_PER_BLOCK * (BM * BK + BK * BN + 2 * PAD) * sizeof(Sum)          Barriers  2 of a warp per K step
// Requires  groups that lie in one warp; each thread as many elements of a tile as another, in whole vectors
// Source    CUDA C++ Programming Guide, "Warp synchronization functions"; "Shared memory"
//
// A product of 8 by 8 takes less time than the warps of a block take to meet at a barrier. Here no warp waits for another,
// and all that a product of up to BK steps reads is sent for at once, 16 bytes at a time where rows are aligned. Finding out
// where a tile lies takes as many instructions as multiplying: so groups are small, and a warp finds several at a time.
//
// The groups of a warp take as many steps as the longest slice of K has, and meet at every barrier. One that has no tile,
// or less to sum, reads zeros, which add nothing.
static_assert(32 % GROUP == 0 && THREADS % 32 == 0, "a group lies in one warp, and no warp lacks lanes");
static_assert(PAD * sizeof(Sum) % 16 == 0, "padding keeps tiles 16-byte aligned");

constexpr int V = 16 / sizeof(Sum);   // elements of a 16-byte vector

// Neighbours, moved with one instruction.
template <int N>
struct alignas(N * sizeof(Sum)) Neighbours {
    Sum element[N];
};

// A group's tile of A, or of B transposed: elements (i, k), WIDTH by BK, kept in lines the way the matrix lies in memory.
// A thread multiplies COUNT successive i. The vectors of a line are swizzled: lanes that read the same place of lines COUNT
// apart meet different banks.
template <int WIDTH, int COUNT, Order ORDER>
struct Tile {
    static constexpr bool ALONG_K = ORDER != Order::COLUMNS;   // neighbours in a line are successive k
    static constexpr int LENGTH = ALONG_K ? BK : WIDTH;        // of a line
    static constexpr int LINE_BYTES = LENGTH * sizeof(Sum);
    static constexpr int APART = COUNT * LINE_BYTES > 128 ? COUNT : 128 / LINE_BYTES;   // lines that are swizzled alike
    static constexpr int SHARE = WIDTH * BK / GROUP;                                    // elements that a thread copies
    static_assert(LENGTH % V == 0 && SHARE % V == 0, "whole vectors");

    Neighbours<V> vectors[(WIDTH * BK + PAD) / V];

    // Where an element is, counted along the lines, and the other way round.
    static __device__ __forceinline__ int i_of(int number) { return ALONG_K ? number / LENGTH : number % LENGTH; }
    static __device__ __forceinline__ int k_of(int number) { return ALONG_K ? number % LENGTH : number / LENGTH; }

    // N neighbours, from element (i, k) on.
    template <int N>
    __device__ __forceinline__ Neighbours<N>& at(int i, int k) {
        const int line = ALONG_K ? i : k, place = ALONG_K ? k : i;
        const int vector = line * (LENGTH / V) + (place / V ^ line / APART % (LENGTH / V));
        return reinterpret_cast<Neighbours<N>&>(vectors[vector].element[place % V]);
    }

    // Reads a thread's share from memory, N neighbours at a time; the next thread's are beside them.
    template <int N, class Part>
    static __device__ __forceinline__ void fetch(Sum (&share)[SHARE], const Part& part) {
#pragma unroll
        for (int s = 0; s < SHARE; s += N) part.template read_vector_or_zero<N>(&share[s], i_of(s * GROUP), k_of(s * GROUP));
    }

    // Puts it into its place.
    template <int N>
    __device__ __forceinline__ void settle(const Sum (&share)[SHARE], int thread) {
#pragma unroll
        for (int s = 0; s < SHARE; s += N) {
            const int number = thread * N + s * GROUP;
            Neighbours<N> neighbours;
#pragma unroll
            for (int n = 0; n < N; ++n) neighbours.element[n] = share[s + n];
            at<N>(i_of(number), k_of(number)) = neighbours;
        }
    }

    // Reads what a thread multiplies, from i on, in V steps of k.
    __device__ __forceinline__ void read(Sum (&fragments)[V][COUNT], int i, int k) {
        constexpr int N = ALONG_K || COUNT > V ? V : COUNT;
#pragma unroll
        for (int c = 0; c < COUNT; c += ALONG_K ? 1 : N)
#pragma unroll
            for (int v = 0; v < V; v += ALONG_K ? N : 1) {
                const Neighbours<N> neighbours = at<N>(i + c, k + v);
#pragma unroll
                for (int n = 0; n < N; ++n) fragments[ALONG_K ? v + n : v][ALONG_K ? c : c + n] = neighbours.element[n];
            }
    }
};
using TileA = Tile<BM, TM, ORDER_A>;
using TileB = Tile<BN, TN, TRANSPOSED<ORDER_B>>;

// Adds up a thread's part of a tile of C. A and B^T begin at the views; of their `depth` steps of k and all other groups'
// there are at most `longest`. N: neighbours in memory that are copied at a time.
template <int N, class ViewA, class ViewB>
__device__ __forceinline__ void multiply(Sum (&acc)[TM][TN], TileA& As, TileB& Bs, ViewA a_view, ViewB b_view, int thread,
                                         long long depth, long long longest) {
    const int m0 = thread / LANES_N * TM, n0 = thread % LANES_N * TN;   // its first row and column
    const int a_k = TileA::k_of(thread * N), b_k = TileB::k_of(thread * N);
    a_view = a_view.from(TileA::i_of(thread * N), a_k);
    b_view = b_view.from(TileB::i_of(thread * N), b_k);
#pragma unroll 1   // laid out several times, it would only cost registers
    for (long long k0 = 0; k0 < longest; k0 += BK) {
        const int steps = inside(depth, k0, BK);
        a_view.cols = steps - a_k;
        b_view.cols = steps - b_k;
        Sum a_share[TileA::SHARE], b_share[TileB::SHARE];
        TileA::template fetch<N>(a_share, a_view);   // all is sent for before anything is waited for
        TileB::template fetch<N>(b_share, b_view);
        As.template settle<N>(a_share, thread);
        Bs.template settle<N>(b_share, thread);
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

// Whether all vectors of a view, whose lines have so many elements, are whole and aligned.
template <class Stored, Order ORDER>
__device__ __forceinline__ bool has_vectors(const View<T, Stored, ORDER>& view, long long length) {
    return view.is_aligned(V * sizeof(Stored)) && length % V == 0;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    __shared__ TileA a_tiles[TILES_PER_BLOCK];
    __shared__ TileB b_tiles[TILES_PER_BLOCK];

    const int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP;
    const unsigned number = blockIdx.x * TILES_PER_BLOCK + group;
    const BlockTile tile = locate_block(p, BM, BN, number);
    const bool exists = number < tiles_to_compute(p);
    const long long depth = exists ? tile.k : 0;   // a group without a tile stays, for the barriers
    const long long longest = p.k < p.slice_k ? p.k : p.slice_k;
    const auto A = matrix<T, ORDER_A>(a + tile.a0, p.m, depth, p.a);
    const auto B = matrix<T, ORDER_B>(b + tile.b0, depth, p.n, p.b);
    const auto a_view = A.tile(tile.row0, 0, BM, BK);                // (BM, BK)
    const auto b_view = B.tile(0, tile.col0, BK, BN).transposed();   // (BN, BK)
    const bool vectors = has_vectors(a_view, ORDER_A == Order::ROWS ? depth : p.m) &&
                         has_vectors(b_view, ORDER_B == Order::COLUMNS ? depth : p.n);

    Sum acc[TM][TN] = {};   // (TM, TN)
    if (V == 1 || __all_sync(0xffffffff, vectors))   // the groups of a warp go the same way, and meet at its barriers
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
