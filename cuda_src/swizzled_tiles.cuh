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

// An element in shared memory. Both parts of a complex one, loaded together, would lie in consecutive registers, where mma needs the
// same part of several elements. Loaded apart, every other 8 bytes, they take twice the wavefronts.
template <class Element>
__device__ __forceinline__ Element load_element(const Element* shared) {
    return *shared;
}
__device__ __forceinline__ complex128 load_element(const complex128* shared) {
    return {load_float64(&shared->re), load_float64(&shared->im)};
}

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
    static constexpr __device__ __forceinline__ int swizzle(int row) {
        return row * PERIOD / 8 % (PERIOD / GROUP) * GROUP;
    }

    __device__ __forceinline__ T* chunk(int row, int index) {
        return &element[row * LENGTH + (index ^ swizzle(row)) * CHUNK];
    }

    // Where a lane begins to read, in bytes: A's fragments of rows from i on, B's of columns from i on. i is a multiple of the warp
    // tile, and of 8 chunks if elements are read one at a time. ldmatrix reads four (8, 16-byte) matrices: each lane points to a row
    // of one of them, `lower` if 8 rows (or columns) further on, `later` if a chunk of k further on. k: the first step that the warp
    // reads, a multiple of the number of steps that it reads of a tile, which is a power of 2.
    static __device__ __forceinline__ unsigned begin_of_a(int i, int lane, int k = 0) {
        return begin(i, k, lane % 16 / 8, lane / 16, lane);
    }
    static __device__ __forceinline__ unsigned begin_of_b(int i, int lane, int k = 0) {
        return begin(i, k, lane / 16, lane % 16 / 8, lane);
    }

    // Reads A's fragment of an mma: 16 rows, `down` rows and k steps from where the lane begins. read_b reads B's fragments of COUNT
    // mma, 8 columns of B each, and read_one_b that of one, where ldmatrix does not read two at once.
    template <class W>
    __device__ __forceinline__ void read_a(W (&registers)[4], unsigned begin, int down, int k) const {
        if constexpr (BY_MATRICES) {
            read_matrices(registers, at(begin, down, k));
        } else {
#pragma unroll
            for (int w = 0; w < 4; ++w) registers[w] = read<W>(begin, down + w % 2 * 8, k + w / 2 * 4);
        }
    }
    template <class W, int COUNT>
    __device__ __forceinline__ void read_b(W (&registers)[COUNT][2], unsigned begin, int k) const {
        if constexpr (BY_MATRICES) {
#pragma unroll
            for (int n = 0; n < COUNT; n += 2) {
                W both[4];
                read_matrices(both, at(begin, n * 8, k));
#pragma unroll
                for (int w = 0; w < 4; ++w) registers[n + w / 2][w % 2] = both[w];
            }
        } else {
#pragma unroll
            for (int n = 0; n < COUNT; ++n) read_one_b(registers[n], begin, n * 8, k);
        }
    }
    template <class W>
    __device__ __forceinline__ void read_one_b(W (&registers)[2], unsigned begin, int down, int k) const {
#pragma unroll
        for (int w = 0; w < 2; ++w) registers[w] = read<W>(begin, down, k + w * 4);
    }

private:
    static __device__ __forceinline__ unsigned begin(int i, int k, int lower, int later, int lane) {
        if constexpr (BY_MATRICES)
            return K_MAJOR ? offset(i + lower * 8 + lane % 8, k + later * CHUNK)
                           : offset(k + later * 8 + lane % 8, i + lower * 8);
        else
            return K_MAJOR ? offset(i + lane / 4, k + lane % 4) : offset(k + lane % 4, i + lane / 4);
    }

    // Of an element, in bytes.
    static __device__ __forceinline__ unsigned offset(int row, int col) {
        return ((row * CHUNKS + (col / CHUNK ^ swizzle(row))) * CHUNK + col % CHUNK) * sizeof(T);
    }

    // The byte `down` rows of A (columns of B) and k steps further on. Both are constants, and leave the permutation as it is: so a
    // lane computes few addresses. They differ in bits of the chunk's index that are 0 in `begin` before it is permuted: an XOR sets
    // those of a permutation, an addition the others.
    __device__ __forceinline__ const unsigned char* at(unsigned begin, int down, int k) const {
        constexpr unsigned PERMUTED = PERIOD * 16;
        const unsigned along = (K_MAJOR ? k : down) * sizeof(T), across = (K_MAJOR ? down : k) * LENGTH * sizeof(T);
        return reinterpret_cast<const unsigned char*>(element) + (begin ^ along % PERMUTED) +
               (along / PERMUTED * PERMUTED + across);
    }

    template <class W>
    static __device__ __forceinline__ void read_matrices(W (&registers)[4], const unsigned char* from) {
        load_matrices<!K_MAJOR>(registers, from);
        if constexpr (SAME<T, tf32>)
#pragma unroll
            for (int w = 0; w < 4; ++w) registers[w] = as_register(__uint_as_float(registers[w]));
    }

    template <class W>
    __device__ __forceinline__ W read(unsigned begin, int down, int k) const {
        return as_register(load_element(reinterpret_cast<const T*>(at(begin, down, k))));
    }
};

// Copies tiles to shared memory: with cp.async if elements are of type T and tile and matrix have the same order, 16 bytes at a time
// where rows are so aligned, else words where they are; else element by element. Where there is no cp.async, chunks of whole tiles go
// through registers.
template <int WIDTH, class Stored, Order ORDER>
struct SwizzledCopies {
    using Tile = SwizzledTile<WIDTH, ORDER>;
    static constexpr bool SAME_ORDER = SAME<T, Stored> && ORDER == (Tile::K_MAJOR ? Order::ROWS : Order::COLUMNS);
    static constexpr int CHUNK = Tile::CHUNK, LOADS = WIDTH * BK / CHUNK / THREADS;
    static constexpr int STEP = THREADS / Tile::CHUNKS;   // rows from one of a thread's chunks to its next
    static constexpr int WORD = sizeof(T) < 4 ? 4 / sizeof(T) : 1;   // elements of the smallest copy
    static constexpr int CHUNK_WORDS = CHUNK / WORD;                 // of a chunk
    static constexpr int PART = CHUNK < 8 ? CHUNK : 8;               // elements that a thread loads before it stores one
    static_assert(WIDTH * BK % (THREADS * CHUNK) == 0 && THREADS % Tile::CHUNKS == 0,
                  "even shares, in whole chunks and rows");

    View<T, Stored, ORDER> view;                // begins at this thread's first element
    bool wide;                                  // 16 bytes are copied at a time
    bool whole;                                 // and all of the tile's WIDTH is inside
    bool words;                                 // words are copied
    int row, index, word;                       // of this thread's first chunk, and which element of it is the first to be copied
    uint4 next[TILEDMM_CP_ASYNC ? 1 : LOADS];   // chunks on their way through registers

    // `aligned`: rows are known to begin at multiples of 16 bytes.
    __device__ __forceinline__ SwizzledCopies(const View<T, Stored, ORDER>& tile, int thread, bool aligned) : view(tile) {
        wide = SAME_ORDER && (aligned || tile.is_aligned(16));
        whole = wide && tile.rows >= WIDTH;
        words = CHUNK_WORDS > 1 && !wide && TILEDMM_CP_ASYNC && SAME_ORDER && tile.is_aligned(WORD * sizeof(T));
        const bool shares = NARROW && !wide && SAME_ORDER;   // a chunk with other lanes
        const int chunk = shares ? thread / 32 * 32 + thread % 32 / CHUNK_WORDS : thread;
        row = chunk / Tile::CHUNKS, index = chunk % Tile::CHUNKS, word = shares ? thread % CHUNK_WORDS * WORD : 0;
        view = tile.from(Tile::K_MAJOR ? row : index * CHUNK + word, first_k());
    }

    __device__ __forceinline__ int first_k() const { return Tile::K_MAJOR ? index * CHUNK + word : row; }

    // The thread's chunk in shared memory, `load` steps on. Rows that differ in other bits are permuted by the XOR of both.
    __device__ __forceinline__ T* chunk(Tile& tile, int load) const {
        static_assert((STEP & (STEP - 1)) == 0, "a thread's rows differ in bits that are 0 in its first");
        if constexpr (NARROW && __CUDA_ARCH__ / 100 == 10) return tile.chunk(row + load * STEP, index);   // others spill there
        const int chunk = (index ^ Tile::swizzle(row)) ^ Tile::swizzle(load * STEP);
        return &tile.element[row * Tile::LENGTH + chunk * CHUNK] + load * STEP * Tile::LENGTH;
    }

    // Starts to copy the next tile, of which every element is inside.
    __device__ __forceinline__ void fetch_whole(Tile& tile) {
        if constexpr (SAME_ORDER) {
            const long long step = STEP * (Tile::K_MAJOR ? view.row_stride : view.col_stride);
            const Stored* from = view.data;
#pragma unroll
            for (int load = 0; load < LOADS; ++load, from += step) {
                if constexpr (TILEDMM_CP_ASYNC)
                    copy_chunk_async(chunk(tile, load), from);
                else
                    next[load] = *reinterpret_cast<const uint4*>(from);
            }
        }
        view.move(0, BK);
    }

    // Stores the chunks that fetch_whole loaded, where there is no cp.async.
    __device__ __forceinline__ void store_whole(Tile& tile) {
        if constexpr (SAME_ORDER && !TILEDMM_CP_ASYNC)
#pragma unroll
            for (int load = 0; load < LOADS; ++load) *reinterpret_cast<uint4*>(chunk(tile, load)) = next[load];
    }

    // Starts to copy the next tile; `left` steps of k remain.
    __device__ __forceinline__ void fetch(Tile& tile, int left) {
        auto part = view;
        part.cols = (left < BK ? left : BK) - first_k();
        if (TILEDMM_CP_ASYNC && wide) {
            copy_chunks(tile, part);
        } else if (words) {
            copy_words(tile, part);
        } else if (NARROW && SAME_ORDER && !wide) {
            load_words(tile, part);
        } else {
#pragma unroll 1   // unrolled it would take the accumulators' registers
            for (int load = 0; load < LOADS; ++load) {
                T* const to = tile.chunk(row + load * STEP, index);
                if constexpr (SAME_ORDER) {
                    const int right = Tile::K_MAJOR ? 0 : load * STEP, down = load * STEP - right;
                    const bool inside = down + (Tile::K_MAJOR ? 1 : CHUNK) <= part.rows && right + (Tile::K_MAJOR ? CHUNK : 1) <= part.cols;
                    if (inside && wide) {
                        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(part.address(down, right));
                        continue;
                    }
                }
#pragma unroll 1
                for (int first = 0; first < CHUNK; first += PART) {
                    Vector<T, PART> elements;
#pragma unroll
                    for (int e = 0; e < PART; ++e)
                        elements.element[e] = Cast<T>::from(Tile::K_MAJOR ? part.read_or_zero(load * STEP, first + e)
                                                                          : part.read_or_zero(first + e, load * STEP));
                    *reinterpret_cast<Vector<T, PART>*>(to + first) = elements;
                }
            }
        }
        view.move(0, BK);
    }

private:
    // Copies N elements from (mn, k) on, with zeros outside.
    template <int N>
    static __device__ __forceinline__ void copy(T* to, const View<T, Stored, ORDER>& part, int mn, int k) {
        if constexpr (Tile::K_MAJOR)   // contiguous elements are part of a column of the transposed matrix
            part.transposed().template copy_or_zero<N>(to, k, mn);
        else
            part.template copy_or_zero<N>(to, mn, k);
    }

    // Copies chunks, with zeros outside.
    __device__ __forceinline__ void copy_chunks(Tile& tile, const View<T, Stored, ORDER>& part) const {
        if constexpr (SAME_ORDER)
#pragma unroll
            for (int load = 0; load < LOADS; ++load)
                copy<CHUNK>(chunk(tile, load), part, Tile::K_MAJOR ? load * STEP : 0, Tile::K_MAJOR ? 0 : load * STEP);
    }

    // Copies words, with zeros outside. Lanes share chunks of narrow elements, so that a warp reads contiguous words.
    __device__ __forceinline__ void copy_words(Tile& tile, const View<T, Stored, ORDER>& part) const {
        if constexpr (SAME_ORDER && TILEDMM_CP_ASYNC && CHUNK_WORDS > 1)
#pragma unroll NARROW ? 1 : LOADS   // unrolled it would take the accumulators' registers
            for (int load = 0; load < LOADS; ++load)
#pragma unroll
                for (int i = 0; i < CHUNK_WORDS; ++i) copy<WORD>(to_word(tile, load, i), part, mn_of(load, i), k_of(load, i));
    }

    // The same element by element, where words are not aligned.
    __device__ __forceinline__ void load_words(Tile& tile, const View<T, Stored, ORDER>& part) const {
        if constexpr (SAME_ORDER && NARROW)
#pragma unroll 1
            for (int load = 0; load < LOADS; ++load) {
                Vector<T, WORD> loaded[CHUNK_WORDS];   // before the first is stored
#pragma unroll
                for (int i = 0; i < CHUNK_WORDS; ++i)
#pragma unroll
                    for (int e = 0; e < WORD; ++e) {
                        const int row = mn_of(load, i) + (Tile::K_MAJOR ? 0 : e), col = k_of(load, i) + (Tile::K_MAJOR ? e : 0);
                        loaded[i].element[e] = row < part.rows && col < part.cols ? *part.address(row, col) : T{};
                    }
#pragma unroll
                for (int i = 0; i < CHUNK_WORDS; ++i) *reinterpret_cast<Vector<T, WORD>*>(to_word(tile, load, i)) = loaded[i];
            }
    }

    // A thread's i-th word: chunks from that of its first; its first row of A, or column of B, and step of k, from those of the view's;
    // and where it is in shared memory.
    static constexpr __device__ __forceinline__ int chunks_to(int i) { return NARROW ? i * (32 / CHUNK_WORDS) : 0; }
    static constexpr __device__ __forceinline__ int down(int load, int i) { return load * STEP + chunks_to(i) / Tile::CHUNKS; }
    static constexpr __device__ __forceinline__ int right(int i) { return chunks_to(i) % Tile::CHUNKS * CHUNK + (NARROW ? 0 : i * WORD); }
    static constexpr __device__ __forceinline__ int mn_of(int load, int i) { return Tile::K_MAJOR ? down(load, i) : right(i); }
    static constexpr __device__ __forceinline__ int k_of(int load, int i) { return Tile::K_MAJOR ? right(i) : down(load, i); }
    __device__ __forceinline__ T* to_word(Tile& tile, int load, int i) const {
        if (!NARROW) return chunk(tile, load) + i * WORD;
        return tile.chunk(row + load * STEP + chunks_to(i) / Tile::CHUNKS, index + chunks_to(i) % Tile::CHUNKS) + word;
    }
};

template <int WIDTH, class Stored, Order ORDER>
__device__ __forceinline__ SwizzledCopies<WIDTH, Stored, ORDER> swizzled_copies(const View<T, Stored, ORDER>& tile, int thread,
                                                                                bool aligned = false) {
    return {tile, thread, aligned};
}

// Rows of C on their way from a warp's accumulators to memory, in chunks of 16 bytes. Chunks are permuted within a row, so that
// neither the pairs of elements that lanes write nor the chunks that they read conflict.
template <int COLS>
struct alignas(128) SwizzledRows {
    static constexpr int ROWS = 8, CHUNK = 16 / sizeof(TC), CHUNKS = COLS / CHUNK;
    static constexpr int PERIOD = CHUNKS < 8 ? CHUNKS : 8, GROUP = sizeof(TC) == 4 ? 2 : sizeof(TC) == 8 ? 4 : 1;

    TC element[ROWS * COLS];

    __device__ __forceinline__ TC* at(int row, int col) {
        const int swizzle = row * PERIOD / 8 % (PERIOD / GROUP) * GROUP;
        return &element[row * COLS + (col / CHUNK ^ swizzle) * CHUNK + col % CHUNK];
    }

    // Writes a lane's accumulators of a row: two contiguous elements of every 8.
    template <int COUNT>
    __device__ __forceinline__ void put(const Sum (&sums)[COUNT][4], int first, int lane) {
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            const int col = j * 8 + lane % 4 * 2;
            Vector<TC, 2> pair;
#pragma unroll
            for (int e = 0; e < 2; ++e) pair.element[e] = from_accumulator<T, TC>(sums[j][first + e]);
            if constexpr (CHUNK > 1) {
                *reinterpret_cast<Vector<TC, 2>*>(at(lane / 4, col)) = pair;
            } else {
                *at(lane / 4, col) = pair.element[0];
                *at(lane / 4, col + 1) = pair.element[1];
            }
        }
    }

    // Writes the rows to C, from (row0, col0) of the tile on, what is inside.
    __device__ __forceinline__ void write(const ResultTile<T, TC>& tile, int row0, int col0, bool aligned, int lane) {
        TC* const c = tile.data + row0 * tile.row_stride + col0 * tile.col_stride;
        if (aligned && col0 + COLS <= tile.cols) {
#pragma unroll
            for (int i = 0; i < (ROWS * CHUNKS + 31) / 32; ++i) {
                const int row = (i * 32 + lane) / CHUNKS, col = (i * 32 + lane) % CHUNKS * CHUNK;
                if (row < ROWS && row0 + row < tile.rows)
                    *reinterpret_cast<uint4*>(c + row * tile.row_stride + col) =
                        *reinterpret_cast<const uint4*>(at(row, col));
            }
        } else {
#pragma unroll 8
            for (int e = lane; e < ROWS * COLS; e += 32) {
                const int row = e / COLS, col = e % COLS;
//% if triangle
                if (!tile.is_kept(row0 + row, col0 + col)) continue;
//% endif
                if (row0 + row < tile.rows && col0 + col < tile.cols)
                    c[row * tile.row_stride + col * tile.col_stride] = *at(row, col);
            }
        }
    }
};
