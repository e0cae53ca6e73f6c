// tiledmm_thin_f32_8x128x16_nn
// Rendered by tiledmm 0.1.0 from warp_tiled.cu.j2: bm=8 bn=128 bk=16 tm=8 tn=4 pad=4 stages=4 unroll=16 min_blocks=1 wm=8 wn=128 lanes=1 triangle=0 tiles_per_block=1 cluster=1

#define TILEDMM_CP_ASYNC (__CUDA_ARCH__ >= 800)   // whether there is cp.async

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

// Starts to copy `count` of N elements, 4, 8 or 16 aligned bytes, to shared memory, and writes zeros for the others.
template <int N, class T>
__device__ __forceinline__ void copy_async(T* shared, const T* from, int count) {
    constexpr int SIZE = sizeof(T);
    static_assert(N * SIZE == 4 || N * SIZE == 8 || N * SIZE == 16, "cp.async copies 4, 8 or 16 bytes");
#if TILEDMM_CP_ASYNC
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const int bytes = N == 1 ? count ? SIZE : 0 : count * SIZE;   // a select takes fewer registers
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(N * SIZE), "r"(bytes) : "memory");
#else
    for (int i = 0; i < N; ++i) shared[i] = i < count ? from[i] : T{};
#endif
}

// Commits this thread's copies to a group; waits until at most PENDING groups, or no copies, are in flight.
__device__ __forceinline__ void commit_copies() {
    if constexpr (TILEDMM_CP_ASYNC) asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int PENDING>
__device__ __forceinline__ void wait_for_copies_except() {
    if constexpr (TILEDMM_CP_ASYNC) asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#endif

using float32 = float;

// The type that products of two elements are accumulated in.
template <class T>
using Accumulator = T;

__device__ __forceinline__ float32 multiply_add(float32 a, float32 b, float32 sum) { return __fmaf_ieee_rn(a, b, sum); }

// A compile-time value as an argument, so that a generic lambda is compiled once for each.
template <bool VALUE>
struct Constant {
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

// The tile of a block, rasterized in groups of p.group columns (threadblock swizzle): row by row through a group, then the next, so
// that concurrent blocks share rows of A, too. Most quotients are 0, which a comparison tells sooner than a division.
__device__ __forceinline__ BlockTile locate_block_in_group(const Problem& p, int bm, int bn, unsigned linear = blockIdx.x) {
    const unsigned rows = static_cast<unsigned>(p.tiles_m), cols = static_cast<unsigned>(p.tiles_n), tiles = rows * cols;
    const unsigned product = linear < tiles ? 0 : linear / tiles, index = linear - product * tiles;
    const unsigned group = static_cast<unsigned>(p.group), first = index < rows * group ? 0 : index / (rows * group) * group;
    const unsigned width = cols - first < group ? cols - first : group, in_group = index - first * rows;
    return tile_at(p, product, in_group / width, first + in_group % width, bm, bn);
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

    // Whether each contiguous row, or column, begins at a multiple of `bytes`.
    __device__ __forceinline__ bool is_aligned(int bytes) const {
        if constexpr (ORDER == Order::STRIDED) return false;
        const long long stride = ORDER == Order::ROWS ? row_stride : col_stride;
        return (reinterpret_cast<long long>(data) | stride * static_cast<long long>(sizeof(Stored))) % bytes == 0;
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

    // Starts to copy N contiguous elements from (row, col) on to shared memory: all are inside, or zeros are written.
    template <int N>
    __device__ __forceinline__ void copy_vector_or_zero(void* shared, int row, int col) const {
        copy_async<N>(static_cast<Stored*>(shared), address(row, col), row < rows && col < cols ? N : 0);
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

    // The transposed tile.
    __device__ __forceinline__ ResultTile mirrored() const { return {data, cols, rows, col_stride, row_stride}; }

    __device__ __forceinline__ void write(int row, int col, Accumulator<T> sum) const {
        if (row < rows && col < cols) data[row * row_stride + col * col_stride] = from_accumulator<T, Stored>(sum);
    }

    // Whether rows are contiguous, begin at multiples of `bytes`, and are whole numbers of them.
    __device__ __forceinline__ bool has_vectors(int bytes) const {
        constexpr long long SIZE = sizeof(Stored);
        return col_stride == 1 && (reinterpret_cast<long long>(data) | row_stride * SIZE | cols * SIZE) % bytes == 0;
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
#define KERNEL tiledmm_thin_f32_8x128x16_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 8;   // rows of C a block computes
constexpr int BN = 128;   // columns of C a block computes
constexpr int BK = 16;   // step along K: how much of A's columns and B's rows is in a shared tile
constexpr int WM = 8;   // rows of C a warp computes
constexpr int WN = 128;   // columns of C a warp computes
constexpr int TM = 8;   // rows of C a thread computes
constexpr int TN = 4;   // columns of C a thread computes
[[maybe_unused]] constexpr int PAD = 4;   // elements added to each row of a shared tile
constexpr int STAGES = 4;   // pipeline stages: shared tiles of A and B
constexpr int LANES_M = WM / TM, LANES_N = WN / TN;
[[maybe_unused]] constexpr int WARPS_N = BN / WN, WARPS = BM / WM * WARPS_N;
constexpr int THREADS = BM / TM * (BN / TN);
constexpr int MIN_BLOCKS = 1;   // resident on an SM: bounds registers
// clang-format on

constexpr int V = 16 / sizeof(Sum);   // elements of a 16-byte vector
// A tile in shared memory, one row per k. If it is transposed as it is stored, padding gives a column's 32 elements 32 banks.
template <int WIDTH, Order ORDER>
using Tile = Sum[BK][WIDTH + (ORDER == Order::COLUMNS ? 0 : PAD)];

constexpr int largest_divisor(int number, int most) { return number % most == 0 ? most : largest_divisor(number, most - 1); }
// Copies tiles to shared memory: element (i, k) of a matrix that begins at `view` goes to tile[k][i]. Elements that need no
// conversion are copied asynchronously, one or V at a time; others go through a thread's registers.
template <int WIDTH, class Stored, Order ORDER>
struct TileCopies {
    static constexpr bool K_MAJOR = ORDER != Order::COLUMNS;   // the matrix's contiguous elements are successive k
    static constexpr bool ASYNC = TILEDMM_CP_ASYNC;
    static constexpr bool ONE_BY_ONE = V == 1 || (ASYNC && K_MAJOR);   // successive k go to different rows of the shared tile

    // A thread's copies of N contiguous elements: where its first element is, and from there to its e-th. The last threads may have none.
    template <int N>
    struct Share {
        static constexpr int ACROSS = (K_MAJOR ? BK : WIDTH) / N, DOWN = K_MAJOR ? WIDTH : BK;   // copies of a row or column, and rows or columns
        static constexpr int COPIES = ACROSS > THREADS ? ACROSS / THREADS : 1;   // of a row or column, a thread's
        static constexpr int STEP = ACROSS > THREADS ? 1 : largest_divisor(DOWN, THREADS / ACROSS);   // rows or columns that are copied at a time
        static constexpr int ELEMENTS = DOWN / STEP * COPIES * N;

        static __device__ __forceinline__ bool has(int i, int k) { return ACROSS * STEP >= THREADS || (K_MAJOR ? i : k) < STEP; }
        static __device__ __forceinline__ int i(int thread) { return K_MAJOR ? thread / ACROSS : thread % ACROSS * N; }
        static __device__ __forceinline__ int k(int thread) { return K_MAJOR ? thread % ACROSS * N : thread / ACROSS; }
        static constexpr int to_i(int e) { return K_MAJOR ? e / N / COPIES * STEP : e / N % COPIES * THREADS * N + e % N; }
        static constexpr int to_k(int e) { return K_MAJOR ? e / N % COPIES * THREADS * N + e % N : e / N / COPIES * STEP; }
    };

    View<T, Stored, ORDER> view;    // begins at this thread's first element,
    int i, k;                       // which is at (i, k) of the tile
    Sum next[Share<V>::ELEMENTS];   // elements on their way through registers

    // Whether a tile consists of aligned vectors that are inside or outside. `length`: contiguous elements of the matrix's rows or columns.
    static __device__ __forceinline__ bool can_be_wide(const View<T, Stored, ORDER>& tile, long long length) {
        return ONE_BY_ONE || (tile.is_aligned(V * sizeof(Stored)) && (length % V == 0 || (ASYNC && tile.rows >= WIDTH)));
    }

    __device__ __forceinline__ TileCopies(const View<T, Stored, ORDER>& tile, bool wide, int thread) : view(tile) {
        const bool by_vectors = !ASYNC || (wide && !ONE_BY_ONE);
        i = by_vectors ? Share<V>::i(thread) : Share<1>::i(thread), k = by_vectors ? Share<V>::k(thread) : Share<1>::k(thread);
        view = tile.from(i, k);
    }

    // Loads the next tile, to `tile` or to `next`; `left` steps of k remain. Unguarded if all of it is inside.
    __device__ __forceinline__ void fetch(Tile<WIDTH, ORDER>& tile, long long left, bool wide, bool unguarded = false) {
        auto part = view;
        part.cols = inside(left, 0, BK) - k;
        if (unguarded) part.rows = part.cols = WIDTH + BK;   // beyond any element: the compiler drops the guards
        if (wide && !ONE_BY_ONE) load<V>(tile, part);
        else load<1>(tile, part);
        view.move(0, BK);
    }

    // Stores elements that were loaded to registers.
    __device__ __forceinline__ void store_shared(Tile<WIDTH, ORDER>& tile) {
        if (ASYNC || !Share<V>::has(i, k)) return;
#pragma unroll
        for (int e = 0; e < Share<V>::ELEMENTS; ++e) tile[k + Share<V>::to_k(e)][i + Share<V>::to_i(e)] = next[e];
    }

    // Loads a thread's share of a tile, N contiguous elements at a time.
    template <int N>
    __device__ __forceinline__ void load(Tile<WIDTH, ORDER>& tile, const View<T, Stored, ORDER>& part) {
        using Own = Share<ASYNC ? N : V>;
#pragma unroll
        for (int e = 0; e < Own::ELEMENTS; e += N) {
            const int di = Own::to_i(e), dk = Own::to_k(e);
            if constexpr (!ASYNC) part.template read_vector_or_zero<N>(&next[e], di, dk);
            else if (Own::has(i, k)) part.template copy_vector_or_zero<N>(&tile[k + dk][i + di], di, dk);
        }
    }
};

// Reads a thread's fragment of a row of a tile: COUNT elements, in groups of V that are LANES * V apart.
template <int COUNT, int LANES>
__device__ __forceinline__ void read_fragment(Sum (&fragment)[COUNT], const Sum* row) {
#pragma unroll
    for (int c = 0; c < COUNT; ++c) fragment[c] = reinterpret_cast<const Vector<Sum, V>*>(row + c / V * V * LANES)->element[c % V];
}

// warp_tiled: warp tiles, fragments double-buffered in registers, and a cp.async pipeline of STAGES stages.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of THREADS threads per (BM, BN) tile of C, one warp per (WM, WN), one thread per (TM, TN)
// Shared    STAGES * BK * (BM + BN) * sizeof(Sum), plus PAD per row of a tile that is transposed; or, if that is more,
//           WARPS * LANES_M * (WN + 1) * sizeof(Sum) for C          Barriers  1 per K step, and 1 if C is not aligned
// Requires  32 threads per warp tile; threads copy whole rows or columns of each tile at a time, or even parts of one
// Source    CUTLASS, "Efficient GEMM in CUDA"; CUDA C++ Programming Guide, "Asynchronous data copies"
//
// Three things hide latency: tiles are copied STAGES - 1 steps of K ahead, fragments are read one step of k ahead, across barriers
// too, and a thread has TM * TN independent FMAs per step of k. The lanes of a warp are arranged LANES_M by LANES_N over its tile.
// A 128-bit load takes two wavefronts if every lane reads the same address as another whose index differs in bit 0 or in bit 1
// only, else four. So lanes 0 and 1 are in one column of the arrangement and read the same of B; 0 and 2 are in one row.
static_assert(LANES_M * LANES_N == 32, "a warp covers its tile");
static_assert(BK % 2 == 0, "fragments alternate between two sets of registers");
static_assert(PAD * sizeof(Sum) % 16 == 0, "padding keeps the rows of a tile 16-byte aligned");

constexpr int PAIR = LANES_M > 1 ? 2 : 1;   // consecutive lanes in one column of the arrangement
constexpr int LEAD = (STAGES - 1) * BK;   // steps of k by which copies precede products
constexpr int WORD = sizeof(TC) < 4 ? 4 / sizeof(TC) : 1;   // elements of 4 bytes, written at once if no more can be
constexpr int FAST = TM < TN ? TM : TN, SLOW = TM < TN ? TN : TM;   // the inner loop over acc is its shorter side

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    __shared__ union {
        struct {
            alignas(16) Tile<BM, ORDER_A> As[STAGES];               // (STAGES, BK, BM)
            alignas(16) Tile<BN, TRANSPOSED<ORDER_B>> Bs[STAGES];   // (STAGES, BK, BN)
        } tiles;
        Sum rows[WARPS][LANES_M][WN + 1];   // of C, for the epilogue: lanes that write V apart access 32 banks
    } shared;
    auto& As = shared.tiles.As;
    auto& Bs = shared.tiles.Bs;

    const BlockTile block = locate_block_in_group(p, BM, BN);
    if (blockIdx.x >= p.tiles) return;   // all of its threads exit: none waits at a barrier
    const Matrix<T, TA, ORDER_A> A = {a + block.a0, p.m, block.k, p.a.row, p.a.col};
    const Matrix<T, TB, TRANSPOSED<ORDER_B>> B = {b + block.b0, p.n, block.k, p.b.col, p.b.row};   // transposed
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);   // (BM, BN)
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int lane_m = lane / (PAIR * LANES_N) * PAIR + lane % PAIR, lane_n = lane / PAIR % LANES_N;
    const int m0 = warp / WARPS_N * WM + lane_m * V;   // this thread's first row and column of C
    const int n0 = warp % WARPS_N * WN + lane_n * V;

    using CopiesA = TileCopies<BM, TA, ORDER_A>;
    using CopiesB = TileCopies<BN, TB, TRANSPOSED<ORDER_B>>;
    constexpr bool ASYNC = CopiesA::ASYNC && CopiesB::ASYNC, STRIDED = ORDER_A == Order::STRIDED || ORDER_B == Order::STRIDED;
    const auto a_tile = A.tile(block.row0, 0, BM, BK);   // (BM, BK)
    const auto b_tile = B.tile(block.col0, 0, BN, BK);   // (BN, BK)
    const bool wide = CopiesA::can_be_wide(a_tile, ORDER_A == Order::ROWS ? block.k : p.m) &&
                      CopiesB::can_be_wide(b_tile, ORDER_B == Order::ROWS ? p.n : block.k);
    CopiesA a_copies(a_tile, wide, thread);
    CopiesB b_copies(b_tile, wide, thread);

    // prologue
    int k_to_load = static_cast<int>(block.k);   // steps of k whose copies have not been started
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage, k_to_load -= BK) {
        a_copies.fetch(As[stage], k_to_load, wide);
        b_copies.fetch(Bs[stage], k_to_load, wide);
        commit_copies();
        a_copies.store_shared(As[stage]);
        b_copies.store_shared(Bs[stage]);
    }
    wait_for_copies_except<STAGES - 2>();
    __syncthreads();   // the first tiles are complete before anyone reads them

    Sum frag_a[2][TM], frag_b[2][TN];
    read_fragment<TM, LANES_M>(frag_a[0], &As[0][0][m0]);
    read_fragment<TN, LANES_N>(frag_b[0], &Bs[0][0][n0]);

    // mainloop
    Sum acc[TM][TN] = {};   // (TM, TN)  groups of V, LANES_M * V rows and LANES_N * V columns apart
    int stage = 0, refilled = STAGES - 1;
    // Until k_to_load <= end. Each way to copy asynchronously has a loop without branches, so that copies are scheduled between products:
    // they go on beyond the end of K, with zeros. Copies through registers leave none for more than one loop.
    const auto multiply_tiles = [&](int end, auto wide, auto unguarded) {
#pragma unroll 1   // unrolled it would only cost registers
        while (k_to_load > end) {
            if (ASYNC || k_to_load > 0) {   // refills the stage that all threads finished reading before the last barrier
                a_copies.fetch(As[refilled], k_to_load, wide, unguarded);
                b_copies.fetch(Bs[refilled], k_to_load, wide, unguarded);
            }
            commit_copies();
#pragma unroll
            for (int k = 0; k < BK; ++k) {
                if (k == BK - 1) {
                    a_copies.store_shared(As[refilled]);   // beyond the end, something that nobody reads
                    b_copies.store_shared(Bs[refilled]);
                    k_to_load -= BK;
                    refilled = stage;
                    stage = stage + 1 == STAGES ? 0 : stage + 1;
                    wait_for_copies_except<STAGES - 2>();
                    __syncthreads();   // the next tiles are complete, and nobody reads the current ones any more
                }
                if (k < BK - 1 || ASYNC || k_to_load > -LEAD) {   // the next fragments; the last step's are in the next stage
                    read_fragment<TM, LANES_M>(frag_a[(k + 1) % 2], &As[stage][(k + 1) % BK][m0]);
                    read_fragment<TN, LANES_N>(frag_b[(k + 1) % 2], &Bs[stage][(k + 1) % BK][n0]);
                }
#pragma unroll
                for (int slow = 0; slow < SLOW; ++slow)
#pragma unroll
                    for (int f = 0; f < FAST; ++f) {
                        const int fast = slow % 2 == 0 ? f : FAST - 1 - f;   // zigzag: successive FMAs share an operand register
                        const int i = TM < TN ? fast : slow, j = TM < TN ? slow : fast;
                        acc[i][j] = multiply_add(frag_a[k % 2][i], frag_b[k % 2][j], acc[i][j]);
                    }
            }
        }
    };
    if (ASYNC && !STRIDED && wide && a_tile.rows >= BM && b_tile.rows >= BN) multiply_tiles(BK - 1, Constant<true>{}, Constant<true>{});
    if constexpr (!ASYNC) multiply_tiles(-LEAD, wide, Constant<false>{});
    else if (wide) multiply_tiles(-LEAD, Constant<true>{}, Constant<false>{});
    else multiply_tiles(-LEAD, Constant<false>{}, Constant<false>{});

    // epilogue
    const auto write_columns = [&](const auto& tile) {   // of C, which are rows of the tile
#pragma unroll
        for (int j = 0; j < TN; ++j)
#pragma unroll
            for (int i = 0; i < TM; i += V) {
                Sum column[V];
#pragma unroll
                for (int v = 0; v < V; ++v) column[v] = acc[i + v][j];
                tile.template write_row<V>(n0 + j / V * LANES_N * V + j % V, m0 + i * LANES_M, column);
            }
    };
    if (c_tile.has_vectors(V * sizeof(TC))) {
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; j += V)
                c_tile.template write_row<V>(m0 + i / V * LANES_M * V + i % V, n0 + j * LANES_N, &acc[i][j]);
    } else if (c_tile.row_stride == 1) {
        write_columns(c_tile.mirrored());
    } else {   // 4 bytes at a time, or a wider element: shared memory transposes, so that consecutive lanes write consecutive addresses
        auto& rows = shared.rows[warp];
        wait_for_copies_except<0>();   // copies beyond the end have written their zeros,
        __syncthreads();               // and everyone has read the last tiles, before rows overwrite them
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
            for (int j = 0; j < TN; ++j) rows[lane_m][(j / V * LANES_N + lane_n) * V + j % V] = acc[i][j];
            __syncwarp();   // the rows are complete before anyone reads them
#pragma unroll
            for (int j = 0; j < TN; j += WORD) {
                const int row = (j * 32 + lane * WORD) / WN, col = (j * 32 + lane * WORD) % WN;
                c_tile.template write_row<WORD>(warp / WARPS_N * WM + (i / V * LANES_M + row) * V + i % V, warp % WARPS_N * WN + col, &rows[row][col]);
            }
            __syncwarp();   // everyone has read the rows before the next overwrite them
        }
    }
}
