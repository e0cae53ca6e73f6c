// Tiles of narrow elements in shared memory, read by ldmatrix. Needs BK and THREADS.

// A tile of a matrix (WIDTH, BK): lines of LENGTH neighbours, in chunks of 16 bytes. Lines are the matrix's own, as it lies
// in memory; of bytes they run along k, since ldmatrix transposes 16-bit elements only. Chunks change places within a line,
// differently from line to line, so that the same chunks of 8 lines lie in 32 different banks.
template <int WIDTH, Order ORDER>
struct alignas(128) SwizzledTile {
    static constexpr bool ALONG_K = ORDER != Order::COLUMNS || sizeof(T) == 1;   // neighbours are successive k
    static constexpr int LINES = ALONG_K ? WIDTH : BK, LENGTH = ALONG_K ? BK : WIDTH;
    static constexpr int CHUNK = 16 / sizeof(T), CHUNKS = LENGTH / CHUNK;   // elements of one, and how many a line has
    static constexpr int TURN = CHUNKS < 8 ? CHUNKS : 8;                    // chunks that change places with each other
    static_assert(CHUNKS % TURN == 0 && 8 % TURN == 0, "whole turns");

    T element[LINES * LENGTH];

    __device__ __forceinline__ T* chunk(int line, int number) {
        return &element[line * LENGTH + (number ^ (line * TURN / 8 % TURN)) * CHUNK];
    }

    // Reads four matrices of 8 by 16 bytes from (i, k) on. This lane points into the one that is `down` along i and `across`
    // along k, 0 or 1.
    __device__ __forceinline__ void read(unsigned (&words)[4], int i, int k, int lane, int down, int across) {
        i += down * 8;
        k += across * CHUNK;
        load_matrices<!ALONG_K>(words, ALONG_K ? chunk(i + lane % 8, k / CHUNK) : chunk(k + lane % 8, i / CHUNK));
    }
};

// Copies tiles to shared memory, 16 bytes at a time and without a stop in registers where elements are of type T, lie as they
// are kept, and lines begin at multiples of that; else element by element.
template <int WIDTH, class Stored, Order ORDER>
struct SwizzledCopies {
    using Tile = SwizzledTile<WIDTH, ORDER>;
    static constexpr bool AS_IT_LIES = SAME<T, Stored> && ORDER == (Tile::ALONG_K ? Order::ROWS : Order::COLUMNS);
    static constexpr int CHUNK = Tile::CHUNK, LOADS = WIDTH * BK / CHUNK / THREADS;
    static_assert(WIDTH * BK % (THREADS * CHUNK) == 0, "even shares, in whole chunks");

    View<T, Stored, ORDER> view;
    bool wide;   // 16 bytes are copied at once
    int thread;

    // Sends for the next tile, with `left` steps of k still to come.
    __device__ __forceinline__ void fetch(Tile& tile, int left) {
        auto part = view;
        part.cols = left < BK ? left : BK;
        if (wide) {
            if constexpr (AS_IT_LIES) {
#pragma unroll
                for (int load = 0; load < LOADS; ++load) {
                    const Place at = place(load);
                    T* const to = tile.chunk(at.line, at.number);
                    if constexpr (Tile::ALONG_K)   // neighbours are a column of the transposed matrix
                        part.transposed().template copy_column_or_zero<CHUNK>(to, at.k, at.i);
                    else
                        part.template copy_column_or_zero<CHUNK>(to, at.i, at.k);
                }
            }
        } else {
#pragma unroll 1   // laid out, it would take the registers of the sums
            for (int load = 0; load < LOADS; ++load) {
                const Place at = place(load);
                T* const to = tile.chunk(at.line, at.number);
#pragma unroll 2
                for (int e = 0; e < CHUNK; ++e)
                    to[e] = Cast<T>::from(Tile::ALONG_K ? part.read_or_zero(at.i, at.k + e) : part.read_or_zero(at.i + e, at.k));
            }
        }
        view.move(0, BK);
    }

    // One of this thread's chunks: where it lies in the tile, and its first element.
    struct Place {
        int line, number, i, k;
    };
    __device__ __forceinline__ Place place(int load) const {
        const int index = thread + load * THREADS, line = index / Tile::CHUNKS, number = index % Tile::CHUNKS;
        return {line, number, Tile::ALONG_K ? line : number * CHUNK, Tile::ALONG_K ? number * CHUNK : line};
    }
};

template <int WIDTH, class Stored, Order ORDER>
__device__ __forceinline__ SwizzledCopies<WIDTH, Stored, ORDER> swizzled_copies(const View<T, Stored, ORDER>& tile, int thread) {
    return {tile, SwizzledCopies<WIDTH, Stored, ORDER>::AS_IT_LIES && tile.is_aligned(16), thread};
}
