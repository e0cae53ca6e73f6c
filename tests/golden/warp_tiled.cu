// tiledmm_warp_tiled_f32_128x256x8_nn
// Rendered by tiledmm 0.1.0 from warp_tiled.cu.j2: bm=128 bn=256 bk=8 tm=8 tn=16 pad=4 stages=3 unroll=8 min_blocks=1 wm=32 wn=128 lanes=1 triangle=0 tiles_per_block=1 cluster=1

#if __CUDA_ARCH__ >= 800
#define TILEDMM_CP_ASYNC 1   // global to shared memory without a stop in registers: compute capability 8.0
#else
#define TILEDMM_CP_ASYNC 0
#endif

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

// Copies `source_bytes` from global to shared memory asynchronously, and zeros up to BYTES.
template <int BYTES>
__device__ __forceinline__ void cp_async(void* shared, const void* global, int source_bytes) {
    const unsigned destination = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :
                 : "r"(destination), "l"(global), "n"(BYTES), "r"(source_bytes)
                 : "memory");
}

__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What was copied since the last call is a group.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until no more than PENDING groups are in flight.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#endif

// Starts copying one element of 4, 8 or 16 bytes; where `valid` is false nothing is read and zeros are written.
template <class T>
__device__ __forceinline__ void copy_async(T* shared, const T* global, bool valid) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "cp.async moves 4, 8 or 16 bytes");
#if TILEDMM_CP_ASYNC
    cp_async<sizeof(T)>(shared, global, valid ? sizeof(T) : 0);
#else
    *shared = valid ? *global : T{};
#endif
}

// Starts copying `count` of N elements, which are 16 bytes at a multiple of 16, and writes zeros for the others.
template <int N, class T>
__device__ __forceinline__ void copy_vector_async(T* shared, const T* global, int count) {
    static_assert(N * sizeof(T) == 16, "a whole vector");
#if TILEDMM_CP_ASYNC
    cp_async<16>(shared, global, count * static_cast<int>(sizeof(T)));
#else
    for (int i = 0; i < N; ++i) shared[i] = i < count ? global[i] : T{};
#endif
}

// The copies that this thread started since the last call are a group.
__device__ __forceinline__ void commit_copies() {
    if constexpr (TILEDMM_CP_ASYNC) cp_async_commit();
}

// Waits until no more than PENDING of this thread's groups of copies are in flight.
template <int PENDING>
__device__ __forceinline__ void wait_for_copies_except() {
    if constexpr (TILEDMM_CP_ASYNC) cp_async_wait<PENDING>();
}

// Waits until every copy this thread started has landed. Other threads see them after the next barrier.
__device__ __forceinline__ void wait_for_copies() {
    if constexpr (TILEDMM_CP_ASYNC) cp_async_wait_all();
}

using float32 = float;

// What products of two elements are summed in (declared to be looked up, never called).
__device__ float32 sum_type(float32);
template <class T>
using Accumulator = decltype(sum_type(T{}));

__device__ __forceinline__ float32 multiply_add(float32 a, float32 b, float32 sum) { return __fmaf_ieee_rn(a, b, sum); }

// A value as a type, for a function to be compiled for each.
template <bool VALUE>
struct Constant {
    static constexpr bool value = VALUE;
};

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

// The same, rasterized in groups (a threadblock swizzle): along the rows of p.group columns, from row to row, then through the
// next columns. Blocks share strips of A, too: they read least where they cover as many rows of C as columns.
__device__ __forceinline__ BlockTile locate_block_in_group(const Problem& p, int bm, int bn, unsigned number = blockIdx.x) {
    const unsigned rows = static_cast<unsigned>(p.tiles_m), cols = static_cast<unsigned>(p.tiles_n), tiles = rows * cols;
    const unsigned product = number / tiles, index = number - product * tiles;
    const unsigned group = static_cast<unsigned>(p.group), first = index / (rows * group) * group;
    const unsigned width = cols - first < group ? cols - first : group, in_group = index - first * rows;
    const unsigned row = in_group / width;
    return tile_at(p, product, row, first + in_group - row * width, bm, bn);
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

    // An element, copied to shared memory asynchronously: see wait_for_copies().
    __device__ __forceinline__ void copy_or_zero(Accumulator<T>* shared, int row, int col) const {
        copy_async(reinterpret_cast<Stored*>(shared), address(row, col), row < rows && col < cols);
    }

    // N elements of a column, from (row, col) on.
    template <int N>
    __device__ __forceinline__ void copy_column_or_zero(void* shared, int row, int col) const {
        const int left = rows - row;
        const int count = col < cols && left > 0 ? left < N ? left : N : 0;
        copy_vector_async<N>(static_cast<Stored*>(shared), address(row, col), count);
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

    // Whether rows are contiguous, and each begins at a multiple of so many bytes.
    __device__ __forceinline__ bool has_aligned_rows(int bytes) const {
        return col_stride == 1 &&
               (reinterpret_cast<long long>(data) | row_stride * static_cast<long long>(sizeof(Stored))) % bytes == 0;
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
#define KERNEL tiledmm_warp_tiled_f32_128x256x8_nn
using TA = float32;   // an element of A in memory
using TB = float32;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float32;   // what elements are converted to, and multiplied as
using Sum = Accumulator<T>;   // what their products are summed in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 128;   // rows of C a block computes
constexpr int BN = 256;   // columns of C a block computes
constexpr int BK = 8;   // step along K: how much of A's columns and B's rows is in a shared tile
constexpr int WM = 32;   // rows of C a warp computes
constexpr int WN = 128;   // columns of C a warp computes
constexpr int TM = 8;   // rows of C a thread computes
constexpr int TN = 16;   // columns of C a thread computes
[[maybe_unused]] constexpr int PAD = 4;   // elements added to each row of a shared tile
constexpr int STAGES = 3;   // shared tiles of A, and of B: one is multiplied while the others are on their way
constexpr int LANES_M = WM / TM;
constexpr int LANES_N = WN / TN;
constexpr int WARPS_N = BN / WN;
[[maybe_unused]] constexpr int WARPS = BM / WM * WARPS_N;
constexpr int THREADS = BM / TM * (BN / TN);
constexpr int MIN_BLOCKS = 1;   // that an SM must hold: bounds registers
// clang-format on

constexpr int V = 16 / sizeof(Sum);   // elements of a 16-byte vector
// A tile in shared memory, K-major whichever way its matrix lies: what a thread needs for a step of k is part of a row. Rows
// that are written down a column are padded: 32 lanes access 32 banks.
template <int WIDTH, Order ORDER>
using Tile = Sum[BK][WIDTH + (ORDER == Order::COLUMNS ? 0 : PAD)];

// Copies tiles to shared memory, K-major: element (i, k) of a matrix that begins at `view` goes to tile[k][i].
//
// What can be copied byte for byte goes there asynchronously: V contiguous elements at a time where they stay contiguous, else
// one by one. A thread reads others into registers, V at a time, and stores them a while later.
template <int WIDTH, class Stored, Order ORDER>
struct TileCopies {
    static constexpr bool ALONG_K = ORDER != Order::COLUMNS;   // contiguous elements are successive k
    static constexpr bool ASYNC = TILEDMM_CP_ASYNC;
    static_assert(WIDTH * BK % (THREADS * V) == 0 || THREADS * V % (WIDTH * BK) == 0, "even shares, in whole vectors");

    // Consecutive threads copy contiguous elements, N at a time: a thread's first ones, and how far it is to its others.
    template <int N>
    struct Share {
        static constexpr int ACROSS = (ALONG_K ? BK : WIDTH) / N;   // copies in a row or column
        static constexpr int TURNS = ACROSS > THREADS ? ACROSS / THREADS : 1;   // that a thread makes in each
        static constexpr int STEP = ACROSS > THREADS ? 1 : THREADS / ACROSS;    // rows or columns at a time
        static constexpr bool FEW = WIDTH * BK < THREADS * N;   // a small tile leaves threads without a share
        static constexpr int LOADS = FEW ? 1 : WIDTH * BK / (THREADS * N);
        static_assert(ACROSS % THREADS == 0 || THREADS % ACROSS == 0, "whole rows or columns, or even parts of them");

        static __device__ __forceinline__ bool has(int i, int k) { return !FEW || (ALONG_K ? i < WIDTH : k < BK); }
        static __device__ __forceinline__ int i(int thread) { return ALONG_K ? thread / ACROSS : thread % ACROSS * N; }
        static __device__ __forceinline__ int k(int thread) { return ALONG_K ? thread % ACROSS * N : thread / ACROSS; }
        static constexpr int across(int load) { return load % TURNS * THREADS * N; }
        static constexpr int down(int load) { return load / TURNS * STEP; }
        static constexpr int step_i(int load) { return ALONG_K ? down(load) : across(load); }
        static constexpr int step_k(int load) { return ALONG_K ? across(load) : down(load); }
    };

    View<T, Stored, ORDER> view;   // seen from this thread's first element
    bool wide;                     // V contiguous elements are copied at once
    bool whole;                    // all of the tile's WIDTH is inside, and is copied asynchronously, as fast as it can be
    int i, k;                      // which element that is
    Sum next[Share<V>::LOADS * V];   // elements that go through registers

    // `line`: contiguous elements from one end of the matrix to the other.
    __device__ __forceinline__ TileCopies(const View<T, Stored, ORDER>& tile, long long line, int thread) : view(tile) {
        wide = tile.is_aligned(V * sizeof(Stored)) && (ASYNC ? !ALONG_K : line % V == 0);
        i = wide || !ASYNC ? Share<V>::i(thread) : Share<1>::i(thread);
        k = wide || !ASYNC ? Share<V>::k(thread) : Share<1>::k(thread);
        whole = ASYNC && tile.rows >= WIDTH && (wide || ALONG_K);
        view = tile.from(i, k);
    }

    // Loads the next tile, with `left` steps of k still to come, to `tile` or to `next`. With WHOLE, which is for tiles that
    // are, and have BK steps left, nothing is guarded.
    template <bool WHOLE = false>
    __device__ __forceinline__ void fetch(Tile<WIDTH, ORDER>& tile, long long left) {
        auto part = view;
        part.cols = inside(left, 0, BK) - k;
        if constexpr (WHOLE) part.rows = part.cols = WIDTH + BK;   // beyond any element: the compiler drops the guards
        const bool vectors = WHOLE ? !ALONG_K : wide;
        if constexpr (!ASYNC) {
#pragma unroll
            for (int load = 0; load < Share<V>::LOADS; ++load) {
                const int di = Share<V>::step_i(load), dk = Share<V>::step_k(load);
                if (vectors)
                    part.template read_vector_or_zero<V>(&next[load * V], di, dk);
                else
#pragma unroll
                    for (int v = 0; v < V; ++v)
                        next[load * V + v] = part.read_or_zero(di + (ALONG_K ? 0 : v), dk + (ALONG_K ? v : 0));
            }
        } else if (vectors) {
#pragma unroll
            for (int load = 0; load < Share<V>::LOADS; ++load) {
                const int di = Share<V>::step_i(load), dk = Share<V>::step_k(load);
                if (Share<V>::has(i, k)) part.template copy_column_or_zero<V>(&tile[k + dk][i + di], di, dk);
            }
        } else {
#pragma unroll
            for (int load = 0; load < Share<1>::LOADS; ++load) {
                const int di = Share<1>::step_i(load), dk = Share<1>::step_k(load);
                if (Share<1>::has(i, k)) part.copy_or_zero(&tile[k + dk][i + di], di, dk);
            }
        }
        view.move(0, BK);
    }

    // Stores what was loaded to registers.
    __device__ __forceinline__ void settle(Tile<WIDTH, ORDER>& tile) {
        if constexpr (!ASYNC) {
            if (!Share<V>::has(i, k)) return;
#pragma unroll
            for (int load = 0; load < Share<V>::LOADS * V; ++load) {
                const int di = Share<V>::step_i(load / V) + (ALONG_K ? 0 : load % V);
                const int dk = Share<V>::step_k(load / V) + (ALONG_K ? load % V : 0);
                tile[k + dk][i + di] = next[load];
            }
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

// warp_tiled: each warp computes a tile of its own, from fragments that wait in registers; copies run STAGES - 1 steps ahead.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N)
// Launch    one block of THREADS threads a (BM, BN) tile of C; a warp of it (WM, WN); a thread (TM, TN)
// Shared    STAGES * BK * (BM + BN) * sizeof(Sum), and PAD a row of a tile that is transposed on the way; or, where that is
//           more, WARPS * LANES_M * (WN + 1) * sizeof(Sum) for C          Barriers  1 per K step, and 1 if C is not aligned
// Requires  32 threads a warp tile; each thread as many elements of a tile as another, in whole vectors
// Source    CUTLASS, "Efficient GEMM in CUDA"; CUDA C++ Programming Guide, "Asynchronous data copies"
//
// Three things hide latency. Tiles are sent for STAGES - 1 steps before they are multiplied. Fragments are read from
// shared memory one step of k before they are multiplied, across the barrier too. And a thread has TM * TN sums to work
// on, 8 by 16 of 4 bytes: an element that is read from shared memory takes part in that many products.
//
// Both tiles are kept K-major, whichever way their matrices lie: a fragment is a stretch of a row, read 16 bytes at a
// time. The lanes of a warp lie LANES_M by LANES_N over its tile: 4 by 8 read 64 bytes of A and 128 of B at a time, without
// a bank conflict. Shared memory answers such a read in two turns where every lane has a neighbour that reads the same
// address, in lanes that differ in bit 0 or in bit 1 of their number, and in four where only others do. So lane 1 lies
// below lane 0, not beside it: 0 and 1 read the same of B, 0 and 2 the same of A.
static_assert(LANES_M * LANES_N == 32, "a warp covers its tile");
static_assert(BK % 2 == 0, "fragments take turns in two sets of registers");
static_assert(PAD * sizeof(Sum) % 16 == 0, "padding keeps the rows of a tile 16-byte aligned");

constexpr int PAIR = LANES_M > 1 ? 2 : 1;   // successive lanes that lie below each other
constexpr int LEAD = (STAGES - 1) * BK;     // steps of k that copies are ahead of products
constexpr bool WIDE = TM < TN;              // sums are taken along their shorter side: a column of them at a time, else a row
constexpr int FAST = WIDE ? TM : TN, SLOW = WIDE ? TN : TM;
constexpr int SETTLE = BK - 1;              // the step of k before which elements that wait in registers are stored

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    __shared__ union {
        struct {
            alignas(16) Tile<BM, ORDER_A> As[STAGES];               // (STAGES, BK, BM)
            alignas(16) Tile<BN, TRANSPOSED<ORDER_B>> Bs[STAGES];   // (STAGES, BK, BN)
        } tiles;
        Sum rows[WARPS][LANES_M][WN + 1];   // of C, on their way out: lanes that write V apart meet 32 banks
    } shared;
    auto& As = shared.tiles.As;
    auto& Bs = shared.tiles.Bs;

    const BlockTile block = locate_block_in_group(p, BM, BN);
    if (blockIdx.x >= p.tiles) return;   // all of its threads leave: no barrier is left waiting
    const Matrix<T, TA, ORDER_A> A = {a + block.a0, p.m, block.k, p.a.row, p.a.col};
    const Matrix<T, TB, ORDER_B> B = {b + block.b0, block.k, p.n, p.b.row, p.b.col};
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);   // (BM, BN)

    const int thread = threadIdx.x;
    const int warp = thread / 32, lane = thread % 32;
    const int lane_m = lane / (PAIR * LANES_N) * PAIR + lane % PAIR, lane_n = lane / PAIR % LANES_N;
    const int m0 = warp / WARPS_N * WM + lane_m * V;   // this thread's first row and column of C
    const int n0 = warp % WARPS_N * WN + lane_n * V;

    auto a_copies = tile_copies<BM>(A.tile(block.row0, 0, BM, BK), ORDER_A == Order::ROWS ? block.k : p.m, thread);
    auto b_copies = tile_copies<BN>(B.tile(0, block.col0, BK, BN).transposed(), ORDER_B == Order::ROWS ? p.n : block.k, thread);

    // prologue
    int unsent = static_cast<int>(block.k);   // steps of k that were not sent for yet
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage, unsent -= BK) {
        a_copies.fetch(As[stage], unsent);
        b_copies.fetch(Bs[stage], unsent);
        commit_copies();
        a_copies.settle(As[stage]);
        b_copies.settle(Bs[stage]);
    }
    wait_for_copies_except<STAGES - 2>();
    __syncthreads();   // the first tiles are complete before anyone reads them

    Sum frag_a[2][TM], frag_b[2][TN];
    read_fragment<TM, LANES_M>(frag_a[0], &As[0][0][m0]);
    read_fragment<TN, LANES_N>(frag_b[0], &Bs[0][0][n0]);

    // mainloop
    Sum acc[TM][TN] = {};   // (TM, TN)  V neighbours at a time, LANES_M * V rows and LANES_N * V columns apart
    int stage = 0, refilled = STAGES - 1;
    const auto multiply_tiles = [&](auto whole) {
        const bool more = whole.value || unsent > BK - LEAD;
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k == 0) {   // the buffer that was left at the last barrier is filled again
                if (whole.value || unsent > 0) {
                    a_copies.template fetch<whole.value>(As[refilled], unsent);
                    b_copies.template fetch<whole.value>(Bs[refilled], unsent);
                }
                commit_copies();
            }
            if (k == SETTLE && (whole.value || unsent > 0)) {
                a_copies.settle(As[refilled]);
                b_copies.settle(Bs[refilled]);
            }
            if (k == BK - 1) {
                unsent -= BK;
                refilled = stage;
                stage = stage + 1 == STAGES ? 0 : stage + 1;
                wait_for_copies_except<STAGES - 2>();
                __syncthreads();   // the next tiles are complete, and nobody reads the current ones any more
            }
            if (k < BK - 1 || more) {   // the next fragments, which lie in the next tiles at the end of these
                read_fragment<TM, LANES_M>(frag_a[(k + 1) % 2], &As[stage][(k + 1) % BK][m0]);
                read_fragment<TN, LANES_N>(frag_b[(k + 1) % 2], &Bs[stage][(k + 1) % BK][n0]);
            }
#pragma unroll
            for (int slow = 0; slow < SLOW; ++slow)
#pragma unroll
                for (int turn = 0; turn < FAST; ++turn) {
                    const int fast = slow % 2 == 0 ? turn : FAST - 1 - turn;   // there and back: the last is the next one's first
                    const int i = WIDE ? fast : slow, j = WIDE ? slow : fast;
                    acc[i][j] = multiply_add(frag_a[k % 2][i], frag_b[k % 2][j], acc[i][j]);
                }
        }
    };
    // Of most blocks all tiles but the last are whole: a loop without a branch, in which copies go between products.
    if (a_copies.whole && b_copies.whole)
#pragma unroll 1   // laid out several times, they would only cost registers
        while (unsent >= BK) multiply_tiles(Constant<true>{});
#pragma unroll 1
    while (unsent > -LEAD) multiply_tiles(Constant<false>{});

    // epilogue
    if (c_tile.has_aligned_rows(V * sizeof(TC))) {
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; j += V)
                c_tile.template write_row<V>(m0 + i / V * LANES_M * V + i % V, n0 + j * LANES_N, &acc[i][j]);
    } else {   // element by element: successive lanes write neighbours, and so get them by way of shared memory
        auto& rows = shared.rows[warp];
        wait_for_copies();   // of tiles behind the last, which are zeros
        __syncthreads();     // and everyone has read the last tiles: the rows go in their place
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
            for (int j = 0; j < TN; ++j) rows[lane_m][(j / V * LANES_N + lane_n) * V + j % V] = acc[i][j];
            __syncwarp();   // the rows are complete before anyone reads them
#pragma unroll
            for (int j = 0; j < TN; ++j) {
                const int row = (lane + j * 32) / WN, col = (lane + j * 32) % WN;
                c_tile.write(warp / WARPS_N * WM + (i / V * LANES_M + row) * V + i % V, warp % WARPS_N * WN + col, rows[row][col]);
            }
            __syncwarp();   // everyone has read the rows before the next overwrite them
        }
    }
}
