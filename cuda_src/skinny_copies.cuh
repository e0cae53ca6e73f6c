// Copies of skinny products' tiles to shared memory (see swizzled_tiles.cuh). Needs BK and THREADS.

// Most tiles of a skinny product end outside its matrix, and few registers hold accumulators. So every copy is guarded: of 16 bytes
// where rows are so aligned, else of words where they are, both with cp.async. Other elements go through registers: those of the next
// tile are loaded before a tile is multiplied, and stored after it. Successive threads copy what is contiguous in memory.
template <int WIDTH, class Stored, Order ORDER>
struct SkinnyCopies {
    using Tile = SwizzledTile<WIDTH, ORDER>;
    static constexpr bool ALONG_K = ORDER != Order::COLUMNS;   // the matrix's contiguous elements are successive k
    static constexpr bool SAME_ORDER = SAME<T, Stored> && ORDER == (Tile::K_MAJOR ? Order::ROWS : Order::COLUMNS);
    static constexpr int CHUNK = Tile::CHUNK;
    static constexpr int WORD = sizeof(T) < 4 ? 4 / sizeof(T) : 1;             // elements of the smallest copy
    static constexpr int PART = SAME_ORDER && !TILEDMM_CP_ASYNC ? CHUNK : 1;   // elements of a register's load
    static_assert(WIDTH * BK % (THREADS * CHUNK) == 0, "even shares, in whole chunks");

    // A thread's copies of N contiguous elements: where its first one begins, and the steps to its others.
    template <int N>
    struct Share {
        static constexpr int ACROSS = (ALONG_K ? BK : WIDTH) / N;   // copies of a row or column
        static constexpr int STEP = THREADS / ACROSS;               // rows or columns that all threads copy at a time
        static constexpr int LOADS = WIDTH * BK / (THREADS * N);
        static_assert(THREADS % ACROSS == 0 && (STEP & (STEP - 1)) == 0, "whole rows or columns, a power of 2 of them");

        static __device__ __forceinline__ int i(int thread) { return ALONG_K ? thread / ACROSS : thread % ACROSS * N; }
        static __device__ __forceinline__ int k(int thread) { return ALONG_K ? thread % ACROSS * N : thread / ACROSS; }
        static constexpr int step_i(int load) { return ALONG_K ? load * STEP : 0; }
        static constexpr int step_k(int load) { return ALONG_K ? 0 : load * STEP; }
    };

    View<T, Stored, ORDER> view;   // begins at this thread's first element,
    int k, begin;                  // which is of this step of k of the tile, and has this index in shared memory
    int left;                      // steps of k from the next tile on
    bool wide;                     // 16 bytes are copied at a time
    bool async;                    // with cp.async
    Stored next[Share<PART>::LOADS * PART];   // elements on their way through registers

    __device__ __forceinline__ SkinnyCopies(const View<T, Stored, ORDER>& tile, int steps, int thread)
        : view(tile), left(steps) {
        wide = SAME_ORDER && tile.is_aligned(16);
        async = SAME_ORDER && TILEDMM_CP_ASYNC && tile.is_aligned(WORD * sizeof(T));
        const int i = !async ? Share<PART>::i(thread) : wide ? Share<CHUNK>::i(thread) : Share<WORD>::i(thread);
        k = !async ? Share<PART>::k(thread) : wide ? Share<CHUNK>::k(thread) : Share<WORD>::k(thread);
        view = tile.from(i, k);
        const int row = Tile::K_MAJOR ? i : k, col = Tile::K_MAJOR ? k : i;
        begin = row * Tile::LENGTH + (col / CHUNK ^ Tile::swizzle(row)) * CHUNK + col % CHUNK;
    }

    // Starts to copy the next tile, or to load it to registers.
    __device__ __forceinline__ void fetch(Tile& tile) {
        if (left > 0) {
            auto part = view;
            part.cols = (left < BK ? left : BK) - k;
            if (!async)
                load(part);
            else if (wide)
                copy<CHUNK>(tile, part);
            else
                copy<WORD>(tile, part);
            view.move(0, BK);
        }
        left -= BK;
    }

    // Stores what fetch loaded to registers.
    __device__ __forceinline__ void store(Tile& tile) const {
        if (async || left <= -BK) return;
#pragma unroll
        for (int load = 0; load < Share<PART>::LOADS; ++load) {
            Vector<T, PART> elements;
#pragma unroll
            for (int e = 0; e < PART; ++e) {
                if constexpr (SAME<T, Stored>)
                    elements.element[e] = next[load * PART + e];
                else
                    elements.element[e] = Cast<T>::from(to_accumulator<T>(next[load * PART + e]));
            }
            *reinterpret_cast<Vector<T, PART>*>(at<PART>(tile, load)) = elements;
        }
    }

private:
    // Where a copy goes. Steps differ from `begin` in bits that are 0 there before chunks are permuted, so an XOR adds them.
    template <int N>
    __device__ __forceinline__ T* at(Tile& tile, int load) const {
        const int down = Tile::K_MAJOR ? Share<N>::step_i(load) : Share<N>::step_k(load);
        const int right = Tile::K_MAJOR ? Share<N>::step_k(load) : Share<N>::step_i(load);
        return &tile.element[(begin ^ (Tile::swizzle(down) * CHUNK + right)) + down * Tile::LENGTH];
    }

    // Copies N elements at a time, with zeros outside.
    template <int N>
    __device__ __forceinline__ void copy(Tile& tile, const View<T, Stored, ORDER>& part) const {
        if constexpr (SAME_ORDER && TILEDMM_CP_ASYNC)
#pragma unroll
            for (int load = 0; load < Share<N>::LOADS; ++load) {
                if constexpr (ALONG_K)   // contiguous elements are part of a column of the transposed matrix
                    part.transposed().template copy_or_zero<N>(at<N>(tile, load), 0, Share<N>::step_i(load));
                else
                    part.template copy_or_zero<N>(at<N>(tile, load), 0, Share<N>::step_k(load));
            }
    }

    // Loads elements to registers, with zeros outside: PART at a time if they are aligned and inside.
    __device__ __forceinline__ void load(const View<T, Stored, ORDER>& part) {
#pragma unroll
        for (int load = 0; load < Share<PART>::LOADS; ++load) {
            const int i = Share<PART>::step_i(load), k = Share<PART>::step_k(load);
            if constexpr (PART > 1) {
                const bool inside = i + (ALONG_K ? 1 : PART) <= part.rows && k + (ALONG_K ? PART : 1) <= part.cols;
                if (wide && inside) {
                    const auto vector = *reinterpret_cast<const Vector<Stored, PART>*>(part.address(i, k));
#pragma unroll
                    for (int e = 0; e < PART; ++e) next[load * PART + e] = vector.element[e];
                    continue;
                }
            }
#pragma unroll
            for (int e = 0; e < PART; ++e) {
                const int row = i + (ALONG_K ? 0 : e), col = k + (ALONG_K ? e : 0);
                next[load * PART + e] = row < part.rows && col < part.cols ? *part.address(row, col) : Stored{};
            }
        }
    }
};

template <int WIDTH, class Stored, Order ORDER>
__device__ __forceinline__ SkinnyCopies<WIDTH, Stored, ORDER> skinny_copies(const View<T, Stored, ORDER>& tile,
                                                                            long long k, int thread) {
    return {tile, static_cast<int>(k), thread};
}
