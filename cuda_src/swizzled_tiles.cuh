// Tiles in shared memory from which tensor cores' operands are read. Needs BK, THREADS, and ROUNDS: whether float32 numbers are
// rounded to tf32 then.

// What operands come in: narrow elements several to a word of 32 bits, others as they are (declared to be looked up, never
// called).
__device__ float64 word_type(float64);
__device__ complex128 word_type(complex128);
template <class Narrow>
__device__ unsigned word_type(Narrow);

using Word = decltype(word_type(T{}));
constexpr bool NARROW = !SAME<Word, T>;

// An element that is a word, as it is multiplied.
template <class Wide>
__device__ __forceinline__ Wide as_word(Wide x) {
    return x;
}
__device__ __forceinline__ unsigned as_word(tf32 x) { return ROUNDS ? rounded_to_tf32(x) : __float_as_uint(x); }

constexpr int DEPTH = 8 * sizeof(Word) / sizeof(T);   // steps of k of an instruction: 8 words

// A tile of a matrix (WIDTH, BK): lines of LENGTH neighbours, in chunks of 16 bytes. Lines are the matrix's own, as it lies
// in memory; of bytes they run along k, since ldmatrix transposes 16-bit elements only.
//
// Chunks change places within a line, differently from line to line, so that the 128 bytes that are read at once lie in 32
// different banks. By ldmatrix these are a chunk of each of 8 lines. Of words that come one by one, of 4, 8 or 16 bytes, they are
// what 32, 16 or 8 lanes ask for, four of them along k: TOGETHER chunks of a line, which stay side by side, of 2 or 4 lines.
template <int WIDTH, Order ORDER>
struct alignas(128) SwizzledTile {
    static constexpr bool ALONG_K = ORDER != Order::COLUMNS || sizeof(T) == 1;   // neighbours are successive k
    static constexpr int LINES = ALONG_K ? WIDTH : BK, LENGTH = ALONG_K ? BK : WIDTH;
    static constexpr int CHUNK = 16 / sizeof(T), CHUNKS = LENGTH / CHUNK;   // elements of one, and how many a line has
    static constexpr int TURN = CHUNKS < 8 ? CHUNKS : 8;                    // chunks that change places with each other
    static constexpr bool BY_MATRICES = NARROW && (ALONG_K || sizeof(T) == 2);   // ldmatrix brings fragments
    static constexpr int TOGETHER = BY_MATRICES ? 1 : ALONG_K ? 4 * sizeof(T) / 16 : 2;
    static_assert(CHUNKS % TURN == 0 && 8 % TURN == 0 && TURN % TOGETHER == 0, "whole turns");

    T element[LINES * LENGTH];

    // What the numbers of a line's chunks change by: the same again 8 lines on, or 4 where chunks stay TOGETHER and lines are
    // successive k.
    static __device__ __forceinline__ int turn(int line) { return line * TURN / 8 % (TURN / TOGETHER) * TOGETHER; }

    __device__ __forceinline__ T* chunk(int line, int number) {
        return &element[line * LENGTH + (number ^ turn(line)) * CHUNK];
    }

    // Reads A's words of an instruction, which are of 16 of the tile's rows, from (i + down, k) on. So does read_b for COUNT
    // instructions, of 8 rows each: B's columns. i is a multiple of 16, and of 8 chunks where words come one by one.
    //
    // By ldmatrix come four matrices of 8 by 16 bytes at a time: each lane points into one of them.
    template <class W>
    __device__ __forceinline__ void read_a(W (&words)[4], int i, int down, int k, int lane) {
        if constexpr (BY_MATRICES) {
            read_matrices(words, i + down + lane % 16 / 8 * 8, k + lane / 16 * CHUNK, lane);
        } else {
#pragma unroll
            for (int w = 0; w < 4; ++w) words[w] = as_word(word(i, down + w % 2 * 8, k + w / 2 * 4, lane));
        }
    }
    template <class W, int COUNT>
    __device__ __forceinline__ void read_b(W (&words)[COUNT][2], int i, int k, int lane) {
        if constexpr (BY_MATRICES) {
#pragma unroll
            for (int n = 0; n < COUNT; n += 2) {
                W both[4];
                read_matrices(both, i + n * 8 + lane / 16 * 8, k + lane % 16 / 8 * CHUNK, lane);
#pragma unroll
                for (int w = 0; w < 4; ++w) words[n + w / 2][w % 2] = both[w];
            }
        } else {
#pragma unroll
            for (int n = 0; n < COUNT; ++n)
#pragma unroll
                for (int w = 0; w < 2; ++w) words[n][w] = as_word(word(i, n * 8, k + w * 4, lane));
        }
    }

private:
    template <class W>
    __device__ __forceinline__ void read_matrices(W (&words)[4], int i, int k, int lane) {
        load_matrices<!ALONG_K>(words, ALONG_K ? chunk(i + lane % 8, k / CHUNK) : chunk(k + lane % 8, i / CHUNK));
        if constexpr (SAME<T, tf32>)
#pragma unroll
            for (int w = 0; w < 4; ++w) words[w] = as_word(__uint_as_float(words[w]));
    }

    // The word at (i + down + lane / 4, k + lane % 4). All but i and the lane are constants: so a lane finds once or twice
    // where it begins, and then adds a constant for each word.
    __device__ __forceinline__ T word(int i, int down, int k, int lane) {
        const int line = ALONG_K ? lane / 4 : lane % 4, place = ALONG_K ? lane % 4 : lane / 4;
        const int first = (ALONG_K ? k : down) / CHUNK, own = place / CHUNK ^ turn(line);
        const T* const begin =
            &element[ALONG_K ? (i + line) * LENGTH : line * LENGTH + i] + (first % 8 ^ own) * CHUNK + place % CHUNK;
        return begin[(ALONG_K ? down : k) * LENGTH + first / 8 * 8 * CHUNK];
    }
};

// Copies tiles to shared memory, 16 bytes at a time and without a stop in registers where elements are of type T, lie as
// they are kept, and lines begin at multiples of that; else element by element.
template <int WIDTH, class Stored, Order ORDER>
struct SwizzledCopies {
    using Tile = SwizzledTile<WIDTH, ORDER>;
    static constexpr bool AS_IT_LIES = SAME<T, Stored> && ORDER == (Tile::ALONG_K ? Order::ROWS : Order::COLUMNS);
    static constexpr int CHUNK = Tile::CHUNK, LOADS = WIDTH * BK / CHUNK / THREADS;
    static constexpr int STEP = THREADS / Tile::CHUNKS;   // lines from one of a thread's chunks to its next
    static_assert(WIDTH * BK % (THREADS * CHUNK) == 0 && THREADS % Tile::CHUNKS == 0,
                  "even shares, in whole chunks and lines");

    View<T, Stored, ORDER> view;   // seen from this thread's first element
    bool wide;                     // 16 bytes are copied at once
    bool whole;                    // and all of the tile's WIDTH is inside
    int line, number;              // this thread's first chunk

    __device__ __forceinline__ SwizzledCopies(const View<T, Stored, ORDER>& tile, int thread)
        : view(tile), line(thread / Tile::CHUNKS), number(thread % Tile::CHUNKS) {
        wide = AS_IT_LIES && tile.is_aligned(16);
        whole = wide && tile.rows >= WIDTH;
        view = tile.from(Tile::ALONG_K ? line : number * CHUNK, first_k());
    }

    __device__ __forceinline__ int first_k() const { return Tile::ALONG_K ? number * CHUNK : line; }

    // Sends for the next tile, with `left` steps of k still to come.
    __device__ __forceinline__ void fetch(Tile& tile, int left) {
        auto part = view;
        part.cols = (left < BK ? left : BK) - first_k();
        if (whole && left >= BK) {
            part.rows = part.cols = WIDTH + BK;   // beyond any element: the compiler drops the guards
            copy(tile, part);
        } else if (wide) {
            copy(tile, part);
        } else {
#pragma unroll 1   // laid out, it would take the registers of the sums
            for (int load = 0; load < LOADS; ++load) {
                T* const to = tile.chunk(line + load * STEP, number);
#pragma unroll 2
                for (int e = 0; e < CHUNK; ++e)
                    to[e] = Cast<T>::from(Tile::ALONG_K ? part.read_or_zero(load * STEP, e)
                                                        : part.read_or_zero(e, load * STEP));
            }
        }
        view.move(0, BK);
    }

private:
    __device__ __forceinline__ void copy(Tile& tile, const View<T, Stored, ORDER>& part) {
        if constexpr (AS_IT_LIES) {
#pragma unroll
            for (int load = 0; load < LOADS; ++load) {
                T* const to = tile.chunk(line + load * STEP, number);
                if constexpr (Tile::ALONG_K)   // neighbours are a column of the transposed matrix
                    part.transposed().template copy_column_or_zero<CHUNK>(to, 0, load * STEP);
                else
                    part.template copy_column_or_zero<CHUNK>(to, 0, load * STEP);
            }
        }
    }
};

template <int WIDTH, class Stored, Order ORDER>
__device__ __forceinline__ SwizzledCopies<WIDTH, Stored, ORDER> swizzled_copies(const View<T, Stored, ORDER>& tile,
                                                                                int thread) {
    return {tile, thread};
}
