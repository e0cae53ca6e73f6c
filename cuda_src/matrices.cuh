// Where the elements lie: sizes, strides, edges and batches. Every kernel goes through here to reach memory, so that
// its own page is about its idea.

// How an operand lies in memory. ROWS: elements of a row are neighbours. COLUMNS: elements of a column are.
// STRIDED: neither (a slice with a step, a reversed or broadcast axis).
enum class Order { ROWS, COLUMNS, STRIDED };

struct Strides {   // in elements; may be negative or zero
    long long row, col, batch[3];
};

// One batched product, as the host describes it.
struct Problem {
    long long m, n, k;            // A (m, k)   B (k, n)   C (m, n)
    long long tiles_m, tiles_n;   // blocks that cover C's rows and columns
    long long group;              // columns of blocks that are numbered together
    long long slices, slice_k;    // parts that K is cut into, each summed by blocks of its own, and steps of k in each
    long long slice_c;            // elements from where one slice's sums are written to where the next's are
    long long batch[3];           // products, slowest first
    Strides a, b, c;
};

// 64-bit division is a long routine on a GPU; most quotients here are plain to see, or fit 32 bits.
__device__ __forceinline__ long long divide(long long dividend, long long divisor) {
    if (divisor == 1) return dividend;
    if (dividend < divisor) return 0;
    if ((static_cast<unsigned long long>(dividend | divisor) >> 32) == 0)
        return static_cast<unsigned>(dividend) / static_cast<unsigned>(divisor);
    return dividend / divisor;
}

// How far a product's matrix is from the first one's, in elements.
__device__ __forceinline__ long long batch_offset(const Problem& p, const Strides& strides, long long product) {
    const long long slow = divide(product, p.batch[2]);
    const long long i0 = divide(slow, p.batch[1]);
    return i0 * strides.batch[0] + (slow - i0 * p.batch[1]) * strides.batch[1] +
           (product - slow * p.batch[2]) * strides.batch[2];
}

// A product's place in each dimension of the batch, as an operand has it: 0 where it is broadcast.
__device__ __forceinline__ void batch_coordinates(const Problem& p, const Strides& strides, long long product, int (&at)[3]) {
    const long long slow = divide(product, p.batch[2]), i0 = divide(slow, p.batch[1]);
    at[0] = strides.batch[0] ? static_cast<int>(i0) : 0;
    at[1] = strides.batch[1] ? static_cast<int>(slow - i0 * p.batch[1]) : 0;
    at[2] = strides.batch[2] ? static_cast<int>(product - slow * p.batch[2]) : 0;
}

// The part of the problem that one block computes.
struct BlockTile {
    long long row0, col0;   // its first row and column of C
    long long k;            // steps of k that it sums: all, or a slice of them; at most 2^30
    long long a0, b0, c0;   // where its matrices begin, in elements
    bool exists;            // false for the blocks that fill up the grid's last row
    long long product, k0;  // which product of the batch, and the first step of k

    // The tile on the other side of C's diagonal.
    __device__ __forceinline__ BlockTile transposed() const { return {col0, row0, k, a0, b0, c0, exists, product, k0}; }
};

// The block's number, which spans two grid dimensions: x alone stops at 2^31 - 1.
__device__ __forceinline__ long long block_number() {
    return blockIdx.x + static_cast<long long>(gridDim.x) * blockIdx.y;
}

// Blocks are numbered down C's columns, then along its rows, then through the slices of K and the batch: blocks that run
// at the same time share a strip of B.
__device__ __forceinline__ BlockTile locate_block(const Problem& p, long long number, int bm, int bn) {
    const long long strip = divide(number, p.tiles_m);   // column of tiles, counted through slices and batch
    long long product = divide(strip, p.tiles_n);
    BlockTile tile = {};
    tile.row0 = (number - strip * p.tiles_m) * bm;
    tile.col0 = (strip - product * p.tiles_n) * bn;
    tile.k = p.k;
    if (p.slices > 1) {
        const long long part = product;
        product = divide(part, p.slices);
        const long long slice = part - product * p.slices;
        tile.k0 = slice * p.slice_k;
        tile.k = p.k - tile.k0 < p.slice_k ? p.k - tile.k0 : p.slice_k;
        tile.a0 = tile.k0 * p.a.col;
        tile.b0 = tile.k0 * p.b.row;
        tile.c0 = slice * p.slice_c;
    }
    tile.product = product;
    tile.exists = product < p.batch[0] * p.batch[1] * p.batch[2];
    if (product > 0) {
        tile.a0 += batch_offset(p, p.a, product);
        tile.b0 += batch_offset(p, p.b, product);
        tile.c0 += batch_offset(p, p.c, product);
    }
    return tile;
}

__device__ __forceinline__ BlockTile locate_block(const Problem& p, int bm, int bn) {
    return locate_block(p, block_number(), bm, bn);
}

// The number in that order of a block that is numbered along the rows of p.group columns of tiles, from row to row, then
// through the next columns. Blocks that run at the same time so share strips of A, too: they read least where they cover
// as many rows of C as columns.
__device__ __forceinline__ long long in_groups(const Problem& p, long long number) {
    const long long blocks = p.tiles_m * p.tiles_n, index = number - divide(number, blocks) * blocks;   // of one product
    const long long first = divide(index, p.tiles_m * p.group) * p.group;   // column of tiles
    const long long width = p.tiles_n - first < p.group ? p.tiles_n - first : p.group;
    const long long place = index - first * p.tiles_m, row = divide(place, width);
    return number - index + (first + place - row * width) * p.tiles_m + row;
}

// The number in that order of a block, where blocks are numbered through the tiles on and below C's diagonal: rows of tiles
// that have as many together as there are tiles in a row, the longest with the shortest, one pair after the other.
__device__ __forceinline__ long long in_triangle(const Problem& p, long long number) {
    const long long size = p.tiles_m, blocks = size * (size + 1) / 2, odd = size % 2;
    const long long product = divide(number, blocks), index = number - product * blocks;
    const long long pair = divide(index, size + 1 - odd), place = index - pair * (size + 1 - odd);
    const bool longer = place < size - pair;
    const long long row = longer ? size - 1 - pair : pair - odd, col = longer ? place : place - (size - pair);
    return (product * size + col) * size + row;
}

// How many of `size` rows or columns from `first` on lie inside a matrix that has `extent` of them.
__device__ __forceinline__ int inside(long long extent, long long first, int size) {
    const long long left = extent - first;
    return left < size ? static_cast<int>(left) : size;
}

// The order of a matrix, transposed.
template <Order ORDER>
constexpr Order TRANSPOSED = ORDER == Order::ROWS      ? Order::COLUMNS
                             : ORDER == Order::COLUMNS ? Order::ROWS
                                                       : ORDER;

// A part of a matrix that is read, seen from its own element (0, 0); `rows` and `cols` from there on may be used. Elements
// are `Stored` in memory and come out as accumulators of products of type T.
template <class T, class Stored, Order ORDER>
struct View {
    const Stored* data;   // element (0, 0)
    int rows, cols;       // zero or negative: nothing of it lies inside
    long long row_stride, col_stride;

    __device__ __forceinline__ const Stored* address(int row, int col) const {
        if constexpr (ORDER == Order::ROWS) return data + row * row_stride + col;
        if constexpr (ORDER == Order::COLUMNS) return data + row + col * col_stride;
        return data + row * row_stride + col * col_stride;
    }

    // The same part, seen from (row, col).
    __device__ __forceinline__ View from(int row, int col) const {
        return {address(row, col), rows - row, cols - col, row_stride, col_stride};
    }

    // The same part of the transposed matrix.
    __device__ __forceinline__ View<T, Stored, TRANSPOSED<ORDER>> transposed() const {
        return {data, cols, rows, col_stride, row_stride};
    }

    // Whether each row (or column, where elements of a column are neighbours) begins at a multiple of so many bytes.
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

    // N neighbours from (row, col) on, as they lie in memory, at a multiple of their size: all are inside, or none.
    template <int N>
    __device__ __forceinline__ void read_or_zero(Accumulator<T>* values, int row, int col) const {
        struct alignas(N * sizeof(Stored)) Neighbours {
            Stored element[N];
        };
        Neighbours neighbours = {};
        if (row < rows && col < cols) neighbours = *reinterpret_cast<const Neighbours*>(address(row, col));
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = to_accumulator<T>(neighbours.element[i]);
    }

    // The same, copied to shared memory without waiting for it to arrive: see wait_for_copies().
    __device__ __forceinline__ void copy_or_zero(Accumulator<T>* shared, int row, int col) const {
        copy_async(reinterpret_cast<Stored*>(shared), address(row, col), row < rows && col < cols);
    }

    // N elements of a column, from (row, col) on.
    template <int N>
    __device__ __forceinline__ void copy_column_or_zero(void* shared, int row, int col) const {
        const int left = rows - row;
        const int count = col < cols && left > 0 ? left < N ? left : N : 0;
        copy_async<N>(static_cast<Stored*>(shared), address(row, col), count);
    }
};

// A matrix that is read.
template <class T, class Stored, Order ORDER>
struct Matrix {
    const Stored* data;
    long long rows, cols, row_stride, col_stride;

    __device__ __forceinline__ const Stored* address(long long row, long long col) const {
        if constexpr (ORDER == Order::ROWS) return data + row * row_stride + col;
        if constexpr (ORDER == Order::COLUMNS) return data + row + col * col_stride;
        return data + row * row_stride + col * col_stride;
    }

    // The element at (row, col), which must be inside.
    __device__ __forceinline__ Accumulator<T> read(long long row, long long col) const {
        return to_accumulator<T>(*address(row, col));
    }

    // The tile of (height, width) elements that begins at (row, col), which must be inside.
    __device__ __forceinline__ View<T, Stored, ORDER> tile(long long row, long long col, int height, int width) const {
        return {address(row, col), inside(rows, row, height), inside(cols, col, width), row_stride, col_stride};
    }
};

template <class T, Order ORDER, class Stored>
__device__ __forceinline__ Matrix<T, Stored, ORDER> matrix(const Stored* data, long long rows, long long cols,
                                                           const Strides& strides) {
    return {data, rows, cols, strides.row, strides.col};
}

// The tile of C that a block writes; what lies beyond the edge is dropped.
template <class T, class Stored>
struct ResultTile {
    Stored* data;   // its element (0, 0)
    int rows, cols;
    long long row_stride, col_stride;

    __device__ __forceinline__ void write(int row, int col, Accumulator<T> sum) const {
        if (row < rows && col < cols) data[row * row_stride + col * col_stride] = from_accumulator<T, Stored>(sum);
    }

    // Whether elements of a row are neighbours, and each row begins at a multiple of so many bytes.
    __device__ __forceinline__ bool is_aligned(int bytes) const {
        return col_stride == 1 &&
               (reinterpret_cast<long long>(data) | row_stride * static_cast<long long>(sizeof(Stored))) % bytes == 0;
    }

    // N neighbours in a row: one access where they lie side by side, at a multiple of their size.
    template <int N>
    __device__ __forceinline__ void write_row(int row, int col, const Accumulator<T>* sums) const {
        const Stored* const first = data + row * row_stride + col * col_stride;
        if (row < rows && col + N <= cols && col_stride == 1 &&
            reinterpret_cast<unsigned long long>(first) % (N * sizeof(Stored)) == 0) {
            write_neighbours<N>(row, col, sums);
        } else {
#pragma unroll
            for (int i = 0; i < N; ++i) write(row, col + i, sums[i]);
        }
    }

    // The same where it is known that all of them are inside, side by side, at a multiple of their size.
    template <int N>
    __device__ __forceinline__ void write_neighbours(int row, int col, const Accumulator<T>* sums) const {
        struct alignas(N * sizeof(Stored)) Neighbours {
            Stored element[N];
        };
        Neighbours neighbours;
#pragma unroll
        for (int i = 0; i < N; ++i) neighbours.element[i] = from_accumulator<T, Stored>(sums[i]);
        store(reinterpret_cast<Neighbours*>(data + row * row_stride + col), neighbours);
    }
};

// So many elements and those behind them up to a multiple of 16 bytes.
template <class Stored>
__device__ __forceinline__ int whole_vectors(int count) {
    constexpr int N = sizeof(Stored) < 16 ? 16 / sizeof(Stored) : 1;
    return (count + N - 1) / N * N;
}

// Block's tile of (height, width) elements of C.
template <class T, class Stored>
__device__ __forceinline__ ResultTile<T, Stored> result_tile(Stored* data, const Problem& p, const BlockTile& block,
                                                             int height, int width) {
    return {data + block.c0 + block.row0 * p.c.row + block.col0 * p.c.col, inside(p.m, block.row0, height),
            inside(p.n, block.col0, width), p.c.row, p.c.col};
}
