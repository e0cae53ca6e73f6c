// Swizzled tiles in shared memory, from which mma's fragments are read. Needs BK, THREADS, and ROUNDS: whether float32 is rounded to
// tf32 when it is read.

// The type of a fragment's registers: 32 bits of packed narrow elements, or one wide element (for decltype; never defined).
__device__ float64 register_type(float64);
__device__ complex128 register_type(complex128);
template <class Narrow>
__device__ unsigned register_type(Narrow);

using Register = decltype(register_type(T{}));
constexpr bool NARROW = !SAME<Register, T>;

// An element as mma takes it.
template <class Wide>
__device__ __forceinline__ Wide as_register(Wide x) {
    return x;
}
__device__ __forceinline__ unsigned as_register(tf32 x) { return ROUNDS ? rounded_to_tf32(x) : __float_as_uint(x); }

constexpr int DEPTH = 8 * sizeof(Register) / sizeof(T);   // steps of k of an mma: 8 registers

// A (WIDTH, BK) tile of a matrix: rows of LENGTH contiguous elements, in chunks of 16 bytes. It has its matrix's order, except that
// bytes are K-major, since ldmatrix transposes 16-bit elements only.
//
// Chunks are permuted within a row, differently from row to row, so that the 128 bytes of a wavefront lie in 32 different banks.
// ldmatrix reads one chunk of each of 8 rows. If elements of 4, 8 or 16 bytes are read one at a time, 32, 16 or 8 lanes share a
// wavefront, four of them along k: they read GROUP chunks, which stay adjacent, of each of 2 or 4 rows.
template <int WIDTH, Order ORDER>
struct alignas(128) SwizzledTile {
    static constexpr bool K_MAJOR = ORDER != Order::COLUMNS || sizeof(T) == 1;
    static constexpr int ROWS = K_MAJOR ? WIDTH : BK, LENGTH = K_MAJOR ? BK : WIDTH;
    static constexpr int CHUNK = 16 / sizeof(T), CHUNKS = LENGTH / CHUNK;   // elements of a chunk, chunks of a row
    static constexpr int PERIOD = CHUNKS < 8 ? CHUNKS : 8;                  // chunks that are permuted among themselves
    static constexpr bool BY_MATRICES = NARROW && (K_MAJOR || sizeof(T) == 2);   // ldmatrix reads fragments
    static constexpr int GROUP = BY_MATRICES ? 1 : K_MAJOR ? 4 * sizeof(T) / 16 : 2;
    static_assert(CHUNKS % PERIOD == 0 && 8 % PERIOD == 0 && PERIOD % GROUP == 0, "whole permutations");

    T element[ROWS * LENGTH];

    // What a chunk's index in a row is XORed with. The pattern repeats after 8 rows; in MN-major tiles that ldmatrix does not read,
    // after 4.
    static __device__ __forceinline__ int swizzle(int row) { return row * PERIOD / 8 % (PERIOD / GROUP) * GROUP; }

    __device__ __forceinline__ T* chunk(int row, int index) {
        return &element[row * LENGTH + (index ^ swizzle(row)) * CHUNK];
    }

    // Reads A's fragment of an mma: 16 rows from (i + down, k) on. read_b reads B's fragments of COUNT mma, 8 columns of B each.
    // i is a multiple of 16, and of 8 chunks if elements are read one at a time. ldmatrix reads four (8, 16-byte) matrices: each
    // lane points to a row of one of them.
    template <class W>
    __device__ __forceinline__ void read_a(W (&registers)[4], int i, int down, int k, int lane) {
        if constexpr (BY_MATRICES) {
            read_matrices(registers, i + down + lane % 16 / 8 * 8, k + lane / 16 * CHUNK, lane);
        } else {
#pragma unroll
            for (int w = 0; w < 4; ++w) registers[w] = as_register(read(i, down + w % 2 * 8, k + w / 2 * 4, lane));
        }
    }
    template <class W, int COUNT>
    __device__ __forceinline__ void read_b(W (&registers)[COUNT][2], int i, int k, int lane) {
        if constexpr (BY_MATRICES) {
#pragma unroll
            for (int n = 0; n < COUNT; n += 2) {
                W both[4];
                read_matrices(both, i + n * 8 + lane / 16 * 8, k + lane % 16 / 8 * CHUNK, lane);
#pragma unroll
                for (int w = 0; w < 4; ++w) registers[n + w / 2][w % 2] = both[w];
            }
        } else {
#pragma unroll
            for (int n = 0; n < COUNT; ++n)
#pragma unroll
                for (int w = 0; w < 2; ++w) registers[n][w] = as_register(read(i, n * 8, k + w * 4, lane));
        }
    }

private:
    template <class W>
    __device__ __forceinline__ void read_matrices(W (&registers)[4], int i, int k, int lane) {
        load_matrices<!K_MAJOR>(registers, K_MAJOR ? chunk(i + lane % 8, k / CHUNK) : chunk(k + lane % 8, i / CHUNK));
        if constexpr (SAME<T, tf32>)
#pragma unroll
            for (int w = 0; w < 4; ++w) registers[w] = as_register(__uint_as_float(registers[w]));
    }

    // The element at (i + down + lane / 4, k + lane % 4). All but i and the lane are constants: a lane computes one or two
    // addresses, and reads at constant offsets from these.
    __device__ __forceinline__ T read(int i, int down, int k, int lane) {
        const int row = K_MAJOR ? lane / 4 : lane % 4, col = K_MAJOR ? lane % 4 : lane / 4;
        const int first = (K_MAJOR ? k : down) / CHUNK, own = col / CHUNK ^ swizzle(row);
        const T* const begin =
            &element[K_MAJOR ? (i + row) * LENGTH : row * LENGTH + i] + (first % 8 ^ own) * CHUNK + col % CHUNK;
        return begin[(K_MAJOR ? down : k) * LENGTH + first / 8 * 8 * CHUNK];
    }
};

// Copies tiles to shared memory: with cp.async, 16 bytes at a time, if elements are of type T, tile and matrix have the same order,
// and rows are 16-byte aligned; else element by element.
template <int WIDTH, class Stored, Order ORDER>
struct SwizzledCopies {
    using Tile = SwizzledTile<WIDTH, ORDER>;
    static constexpr bool SAME_ORDER = SAME<T, Stored> && ORDER == (Tile::K_MAJOR ? Order::ROWS : Order::COLUMNS);
    static constexpr int CHUNK = Tile::CHUNK, LOADS = WIDTH * BK / CHUNK / THREADS;
    static constexpr int STEP = THREADS / Tile::CHUNKS;   // rows from one of a thread's chunks to its next
    static_assert(WIDTH * BK % (THREADS * CHUNK) == 0 && THREADS % Tile::CHUNKS == 0,
                  "even shares, in whole chunks and rows");

    View<T, Stored, ORDER> view;   // begins at this thread's first element
    bool wide;                     // 16 bytes are copied at a time
    bool whole;                    // and all of the tile's WIDTH is inside
    int row, index;                // of this thread's first chunk

    __device__ __forceinline__ SwizzledCopies(const View<T, Stored, ORDER>& tile, int thread)
        : view(tile), row(thread / Tile::CHUNKS), index(thread % Tile::CHUNKS) {
        wide = SAME_ORDER && tile.is_aligned(16);
        whole = wide && tile.rows >= WIDTH;
        view = tile.from(Tile::K_MAJOR ? row : index * CHUNK, first_k());
    }

    __device__ __forceinline__ int first_k() const { return Tile::K_MAJOR ? index * CHUNK : row; }

    // Starts to copy the next tile; `left` steps of k remain.
    __device__ __forceinline__ void fetch(Tile& tile, int left) {
        auto part = view;
        part.cols = (left < BK ? left : BK) - first_k();
        if (whole && left >= BK) {
            part.rows = part.cols = WIDTH + BK;   // beyond any element: the compiler drops the guards
            copy(tile, part);
        } else if (wide) {
            copy(tile, part);
        } else {
#pragma unroll 1   // unrolled it would take the accumulators' registers
            for (int load = 0; load < LOADS; ++load) {
                T* const to = tile.chunk(row + load * STEP, index);
#pragma unroll 2
                for (int e = 0; e < CHUNK; ++e)
                    to[e] = Cast<T>::from(Tile::K_MAJOR ? part.read_or_zero(load * STEP, e)
                                                        : part.read_or_zero(e, load * STEP));
            }
        }
        view.move(0, BK);
    }

private:
    __device__ __forceinline__ void copy(Tile& tile, const View<T, Stored, ORDER>& part) {
        if constexpr (SAME_ORDER) {
#pragma unroll
            for (int load = 0; load < LOADS; ++load) {
                T* const to = tile.chunk(row + load * STEP, index);
                if constexpr (Tile::K_MAJOR)   // a chunk is part of a column of the transposed matrix
                    part.transposed().template copy_or_zero<CHUNK>(to, 0, load * STEP);
                else
                    part.template copy_or_zero<CHUNK>(to, 0, load * STEP);
            }
        }
    }
};

template <int WIDTH, class Stored, Order ORDER>
__device__ __forceinline__ SwizzledCopies<WIDTH, Stored, ORDER> swizzled_copies(const View<T, Stored, ORDER>& tile,
                                                                                int thread) {
    return {tile, thread};
}
