// tiledmm_double_buffered_f32_32x32x64_nn
// Rendered by tiledmm 0.1.0 from double_buffered.cu.j2: bm=32 bn=32 bk=64 tm=1 tn=1 pad=4 stages=2 unroll=64 min_blocks=2 wm=0 wn=0 lanes=1 triangle=0 tiles_per_block=1 cluster=1

#define TILEDMM_CP_ASYNC (__CUDA_ARCH__ >= 800)   // whether there is cp.async

// Maximum resident threads of an SM.
#if __CUDA_ARCH__ == 750
#define TILEDMM_SM_THREADS 1024
#elif __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
#define TILEDMM_SM_THREADS 1536
#else
#define TILEDMM_SM_THREADS 2048
#endif

#ifndef TILEDMM_SIMULATOR   // the simulator defines these functions in C++: tiledmm/simulator/build/native/ptx.h

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
__device__ __forceinline__ void wait_for_copies() {
    if constexpr (TILEDMM_CP_ASYNC) asm volatile("cp.async.wait_all;" ::: "memory");
}

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

    // Starts to copy N elements of a column from (row, col) on to shared memory, zeros outside: see wait_for_copies().
    template <int N>
    __device__ __forceinline__ void copy_or_zero(void* shared, int row, int col) const {
        const int left = N > 1 && rows - row < N ? rows - row : N;
        copy_async<N>(static_cast<Stored*>(shared), address(row, col), row < rows && col < cols ? left : 0);
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
#define KERNEL tiledmm_double_buffered_f32_32x32x64_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 32;   // rows of C a block computes
constexpr int BN = 32;   // columns of C a block computes
constexpr int BK = 64;   // step along K: how much of A's columns and B's rows is in shared memory at a time
constexpr int TM = 1;   // rows of C a thread computes
constexpr int TN = 1;   // columns of C a thread computes
constexpr int UNROLL = 64;   // steps of the inner loop that are unrolled: BK, or as many as compile fast
constexpr int BLOCK_X = BN;
constexpr int BLOCK_Y = BM;
constexpr int THREADS = BLOCK_X * BLOCK_Y;
constexpr bool FITS = 2 * THREADS <= TILEDMM_SM_THREADS && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ < 1000;   // others spill
constexpr int MIN_BLOCKS = FITS ? 2 : 1;   // resident on an SM: bounds registers
constexpr int LOADS_A = BM * BK / THREADS;   // elements of an A tile that a thread copies
constexpr int LOADS_B = BK * BN / THREADS;   // elements of a B tile that a thread copies
constexpr int A_STEP_M = THREADS / BK, A_STEP_K = 0;   // from one of its elements of an A tile to the next
constexpr int B_STEP_K = THREADS / BN, B_STEP_N = 0;   // from one of its elements of a B tile to the next
// clang-format on

// double_buffered: two buffers in shared memory; the next tiles are loaded to one while those in the other are multiplied.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of (BLOCK_X, BLOCK_Y) threads per (BM, BN) tile of C
// Shared    2 * sizeof(Sum) * (BM * BK + BK * BN), plus PAD per column of a B tile by columns          Barriers  1 per K step
// Requires  THREADS threads copy whole rows or columns of both tiles at a time
// Source    CUDA C++ Programming Guide, "Asynchronous data copies"
//
// Elements that need no conversion, have 4 bytes or more, and are copied on compute capability 8.0 or newer go to shared memory
// with cp.async. Others wait in registers, `next_a` and `next_b`, while the current tile is multiplied.
//
// A row of As, and a column of Bs by columns, stays 16-byte aligned, so that one 128-bit load reads four steps of k. Consecutive
// lanes read consecutive columns of Bs: where it is by columns, these are padded by 16 bytes, which spreads the 128-bit loads of
// eight lanes over all banks.
static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "every thread copies the same number of elements");
static_assert(THREADS % BM == 0 && THREADS % BN == 0 && THREADS % BK == 0, "a thread's elements lie whole rows or columns apart");

constexpr bool ASYNC_A = TILEDMM_CP_ASYNC, ASYNC_B = TILEDMM_CP_ASYNC;
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
    __shared__ alignas(16) Sum As[2][BM][BK];   // (2, BM, BK)
    const int a_m = thread / BK, a_k = thread % BK;
    __shared__ alignas(16) Sum Bs[2][BK][BN];   // (2, BK, BN)
    const int b_k = thread / BN, b_n = thread % BN;
    auto a_view = A.tile(block.row0, 0, BM, BK).from(a_m, a_k);
    auto b_view = B.tile(0, block.col0, BK, BN).from(b_k, b_n);

    // Where this thread's elements go.
    const auto slot_a = [&](int stage, int m, int k) { return &As[stage][a_m + m][a_k + k]; };
    const auto slot_b = [&](int stage, int k, int n) { return &Bs[stage][b_k + k][b_n + n]; };
    Sum next_a[LOADS_A], next_b[LOADS_B];

    // Loads the next tiles, to buffer `stage` or, without cp.async, to registers; `left` steps of k remain.
    const auto fetch = [&](int stage, long long left) {
#pragma unroll
        for (int load = 0; load < LOADS_A; ++load) {
            const int m = load * A_STEP_M, k = load * A_STEP_K;
            if constexpr (ASYNC_A) a_view.template copy_or_zero<1>(slot_a(stage, m, k), m, k);
            else next_a[load] = a_view.read_or_zero(m, k);
        }
#pragma unroll
        for (int load = 0; load < LOADS_B; ++load) {
            const int k = load * B_STEP_K, n = load * B_STEP_N;
            if constexpr (ASYNC_B) b_view.template copy_or_zero<1>(slot_b(stage, k, n), k, n);
            else next_b[load] = b_view.read_or_zero(k, n);
        }
        a_view.move(0, BK);   // on to the next tiles; k beyond the end is outside
        b_view.move(BK, 0);
        const int depth = inside(left - BK, 0, BK);
        a_view.cols = depth - a_k;
        b_view.rows = depth - b_k;
    };

    // Completes the load of this thread's elements to buffer `stage`.
    const auto store_shared = [&](int stage) {
        if constexpr (!ASYNC_A)
#pragma unroll
            for (int load = 0; load < LOADS_A; ++load) *slot_a(stage, load * A_STEP_M, load * A_STEP_K) = next_a[load];
        if constexpr (!ASYNC_B)
#pragma unroll
            for (int load = 0; load < LOADS_B; ++load) *slot_b(stage, load * B_STEP_K, load * B_STEP_N) = next_b[load];
        wait_for_copies();
    };

    // prologue
    fetch(0, block.k);
    store_shared(0);
    __syncthreads();   // the first tiles are complete before anyone reads them

    // mainloop
    Sum acc[TM][TN] = {};   // (TM, TN)  rows ty, ty + BLOCK_Y, ...  columns tx, tx + BLOCK_X, ...
    int stage = 0;
#pragma unroll 1   // unrolled it would only cost registers
    for (long long left = block.k; left > 0; left -= BK) {
        const bool more = left > BK;
        if (more) fetch(stage ^ 1, left - BK);

#pragma unroll UNROLL
        for (int k = 0; k < BK; ++k) {
            Sum frag_a[TM], frag_b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) frag_a[i] = As[stage][ty + i * BLOCK_Y][k];
#pragma unroll
            for (int j = 0; j < TN; ++j) frag_b[j] = Bs[stage][k][tx + j * BLOCK_X];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] = multiply_add(frag_a[i], frag_b[j], acc[i][j]);
        }

        if (more) store_shared(stage ^ 1);
        __syncthreads();   // the next tiles are complete, and nobody reads the current ones any more
        stage ^= 1;
    }

    // epilogue
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j)
            c_tile.write(ty + i * BLOCK_Y, tx + j * BLOCK_X, acc[i][j]);
}
