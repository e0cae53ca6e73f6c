// Tiles in shared memory that are read 16 bytes at a time. Needs BK, PAD and THREADS.
//
// Both operands' tiles are kept K-major, whichever way their matrices lie: what a thread needs for a step of k is a stretch
// of a row.

constexpr int V = 16 / sizeof(Sum);   // elements of a 16-byte vector

struct alignas(16) Vector {
    Sum element[V];
};

// A tile: K-major, row after row. Rows that are written down a column are padded: 32 lanes meet 32 banks.
template <int WIDTH, Order ORDER>
using Tile = Sum[BK][WIDTH + (ORDER == Order::COLUMNS ? 0 : PAD)];

// Copies tiles to shared memory, K-major: element (i, k) of a matrix that begins at `view` goes to tile[k][i].
//
// A thread reads V neighbours in memory into registers and stores them a while later, side by side or, where they are
// successive k, below each other. With CP_ASYNC, what can be copied byte for byte does not stop in registers: V neighbours
// at a time where they end up side by side, else one by one.
template <bool CP_ASYNC, int WIDTH, class Stored, Order ORDER>
struct TileCopies {
    static constexpr bool ALONG_K = ORDER != Order::COLUMNS;   // neighbours in memory are successive k
    static constexpr bool ASYNC = CP_ASYNC && TILEDMM_CP_ASYNC && SAME_BITS<T, Stored> && sizeof(Stored) >= 4;
    static_assert(WIDTH * BK % (THREADS * V) == 0 || THREADS * V % (WIDTH * BK) == 0, "even shares, in whole vectors");

    // Successive threads copy neighbours in memory, N at a time: the first of a thread's, and how far it is to its others.
    template <int N>
    struct Share {
        static constexpr int ACROSS = (ALONG_K ? BK : WIDTH) / N;   // copies from one end of a row or column to the other
        static constexpr int TURNS = ACROSS > THREADS ? ACROSS / THREADS : 1;   // that a thread takes at each
        static constexpr int STEP = ACROSS > THREADS ? 1 : THREADS / ACROSS;    // rows or columns at a time
        static constexpr bool FEW = WIDTH * BK < THREADS * N;   // a small tile leaves threads without a share
        static constexpr int LOADS = FEW ? 1 : WIDTH * BK / (THREADS * N);
        static_assert(ACROSS % THREADS == 0 || THREADS % ACROSS == 0, "whole rows or columns, or even parts of them");

        static __device__ __forceinline__ bool has(int i, int k) { return !FEW || (ALONG_K ? i < WIDTH : k < BK); }
        static __device__ __forceinline__ int i(int thread) { return ALONG_K ? thread / ACROSS : thread % ACROSS * N; }
        static __device__ __forceinline__ int k(int thread) { return ALONG_K ? thread % ACROSS * N : thread / ACROSS; }
        static constexpr int across(int load) { return load % TURNS * THREADS * N; }
        static constexpr int down(int load) { return load / TURNS * STEP; }
        static constexpr int di(int load) { return ALONG_K ? down(load) : across(load); }
        static constexpr int dk(int load) { return ALONG_K ? across(load) : down(load); }
    };

    View<T, Stored, ORDER> view;   // seen from this thread's first element
    bool wide;                     // V neighbours are copied at once
    bool whole;                    // all of the tile's WIDTH is inside, and is copied without a stop, as fast as it can be
    int i, k;                      // which element that is
    Sum next[Share<V>::LOADS * V];   // elements on their way, where they go through registers

    // `line`: neighbours from one end of the matrix to the other.
    __device__ __forceinline__ TileCopies(const View<T, Stored, ORDER>& tile, long long line, int thread) : view(tile) {
        wide = tile.is_aligned(V * sizeof(Stored)) && (ASYNC ? !ALONG_K : line % V == 0);
        i = wide || !ASYNC ? Share<V>::i(thread) : Share<1>::i(thread);
        k = wide || !ASYNC ? Share<V>::k(thread) : Share<1>::k(thread);
        whole = ASYNC && tile.rows >= WIDTH && (wide || ALONG_K);
        view = tile.from(i, k);
    }

    // Sends for the next tile, with `left` steps of k still to come. It arrives in `tile` or in `next`. With WHOLE, which is
    // for tiles that are, and have BK steps left, nothing is guarded.
    template <bool WHOLE = false>
    __device__ __forceinline__ void fetch(Tile<WIDTH, ORDER>& tile, long long left) {
        auto part = view;
        part.cols = inside(left, 0, BK) - k;
        if constexpr (WHOLE) part.rows = part.cols = WIDTH + BK;   // beyond any element: the compiler drops the guards
        const bool vectors = WHOLE ? !ALONG_K : wide;
        if constexpr (!ASYNC) {
#pragma unroll
            for (int load = 0; load < Share<V>::LOADS; ++load) {
                const int di = Share<V>::di(load), dk = Share<V>::dk(load);
                if (vectors)
                    part.template read_or_zero<V>(&next[load * V], di, dk);
                else
#pragma unroll
                    for (int v = 0; v < V; ++v)
                        next[load * V + v] = part.read_or_zero(di + (ALONG_K ? 0 : v), dk + (ALONG_K ? v : 0));
            }
        } else if (vectors) {
#pragma unroll
            for (int load = 0; load < Share<V>::LOADS; ++load) {
                const int di = Share<V>::di(load), dk = Share<V>::dk(load);
                if (Share<V>::has(i, k)) part.template copy_column_or_zero<V>(&tile[k + dk][i + di], di, dk);
            }
        } else {
#pragma unroll
            for (int load = 0; load < Share<1>::LOADS; ++load) {
                const int di = Share<1>::di(load), dk = Share<1>::dk(load);
                if (Share<1>::has(i, k)) part.copy_or_zero(&tile[k + dk][i + di], di, dk);
            }
        }
        view.move(0, BK);
    }

    // Puts what arrived in registers into `tile`.
    __device__ __forceinline__ void settle(Tile<WIDTH, ORDER>& tile) {
        if constexpr (!ASYNC) {
            if (!Share<V>::has(i, k)) return;
#pragma unroll
            for (int load = 0; load < Share<V>::LOADS * V; ++load) {
                const int di = Share<V>::di(load / V) + (ALONG_K ? 0 : load % V);
                const int dk = Share<V>::dk(load / V) + (ALONG_K ? load % V : 0);
                tile[k + dk][i + di] = next[load];
            }
        }
    }
};

template <bool CP_ASYNC, int WIDTH, class Stored, Order ORDER>
__device__ __forceinline__ TileCopies<CP_ASYNC, WIDTH, Stored, ORDER> tile_copies(const View<T, Stored, ORDER>& tile,
                                                                                  long long line, int thread) {
    return {tile, line, thread};
}

// Reads a thread's share of row k of a tile: COUNT elements, V neighbours at a time, LANES * V apart.
template <int COUNT, int LANES>
__device__ __forceinline__ void read_fragment(Sum (&fragment)[COUNT], const Sum* row) {
#pragma unroll
    for (int c = 0; c < COUNT; c += V) {
        const Vector vector = *reinterpret_cast<const Vector*>(row + c * LANES);
#pragma unroll
        for (int v = 0; v < V; ++v) fragment[c + v] = vector.element[v];
    }
}
