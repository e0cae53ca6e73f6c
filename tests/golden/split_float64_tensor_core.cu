// tiledmm_split_float64_tensor_core_u8_u8_f64_u8x15_128x128x64_nt
// Rendered by tiledmm 0.1.0 from split_float64_tensor_core.cu.j2: bm=128 bn=128 bk=64 tm=8 tn=16 pad=0 stages=4 unroll=64 min_blocks=1 wm=64 wn=64 lanes=1 triangle=0 tiles_per_block=1 cluster=1 moduli=15

#define TILEDMM_CP_ASYNC (__CUDA_ARCH__ >= 800)   // whether there is cp.async

#ifndef TILEDMM_SIMULATOR   // the simulator defines these functions in C++: tiledmm/simulator/build/native/ptx.h

// Programmatic dependent launch: the blocks of such a launch may begin before the launch before it has ended. The first function waits
// until it has, and what it wrote is visible; every block does, so that a launch that has ended has also waited. It returns at once in
// other launches. The second lets the next launch begin once all blocks have called it; otherwise that begins when they have ended.
__device__ __forceinline__ void griddepcontrol_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
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

using uint8 = unsigned char;
using uint32 = unsigned int;
using float32 = float;
using tf32 = float32;   // tensor cores ignore the last 13 bits of the significand

// A stored element's value, as a type with arithmetic.
template <class T>
__device__ __forceinline__ T widen(T x) {
    return x;
}

// Converts a value to another element type, rounded to nearest even.
template <class To>
struct Cast {
    template <class From>
    static __device__ __forceinline__ To from(From x) {
        return static_cast<To>(x);
    }
};
template <>
struct Cast<float32> {
    template <class Number>
    static __device__ __forceinline__ float32 from(Number x) {
        return static_cast<float32>(x);
    }
};

// Rounds float32 to tf32, 11 significant bits, ties away from zero; the 13 bits that tensor cores ignore are arbitrary. NaNs stay
// NaNs. (As cvt.rna.tf32.f32, except for NaNs.)
__device__ __forceinline__ unsigned rounded_to_tf32(float x) {
    const bool finite = fabsf(x) < __uint_as_float(0x7f800000u);
    return finite ? __float_as_uint(x) + (1u << 12) : __float_as_uint(x + x);   // quiets a NaN: the bit that is set is not ignored
}

// The type that products of two elements are accumulated in (for decltype; never defined).
__device__ float32 sum_type(float32);
__device__ uint32 sum_type(uint8);    // wraps
__device__ uint32 sum_type(uint32);   // wraps
template <class T>
using Accumulator = decltype(sum_type(T{}));

template <class A, class B>
constexpr bool SAME = false;
template <class A>
constexpr bool SAME<A, A> = true;

// A stored element, converted to the computation type T, as it is multiplied.
template <class T, class Stored>
__device__ __forceinline__ Accumulator<T> to_accumulator(Stored x) {
    if constexpr (SAME<T, Stored>) return Cast<Accumulator<T>>::from(widen(x));
    else return Cast<Accumulator<T>>::from(widen(Cast<T>::from(widen(x))));
}

// What is contiguous in memory: rows, columns, or neither (a slice with a step, a reversed or broadcast axis).
enum class Order { ROWS, COLUMNS, STRIDED };

struct Strides {   // in elements; may be negative or zero
    long long row, col, batch[3];
};

// What decompose_residues.cu.j2 learns of an operand while it decomposes float64 numbers into residues (operand scan). Rows are A's
// rows, or B's columns.
struct OperandScan {
    int near;          // least count of a row's elements that are at least an eighth of its root mean square
    int exact;         // 0 if an element was rounded to an integer, or is infinite or NaN
    int least_scale;   // least exponent that a row was scaled by
    int exponent[1];   // of each row: its elements are 2^exponent times integers
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
    long long plane, pitch;   // of C's residues: bytes from one modulus to the next, and from row to row
    long long rows, row0;     // rows of a matrix of A, and which of them is the first here
    long long plane_a, plane_b;   // of A's and B's residues: bytes from one modulus to the next
    OperandScan *scan_a, *scan_b;
};

// Whether products of residues are as accurate as float64's, and exact where float64's are. Elements are rounded to less than 2^-53
// of their row's norm. That is negligible in a sum of which an eighth of the terms are not small in either operand. Elements that were not
// rounded lose nothing.
__device__ __forceinline__ bool is_decomposed(const Problem& p) {
    const long long near = static_cast<long long>(p.scan_a->near) + p.scan_b->near;
    const long long scale = static_cast<long long>(p.scan_a->least_scale) + p.scan_b->least_scale;
    if (scale < 126 - 1023) return false;   // float64's sums may overflow: the product of two scaled norms is below 2^126
    return near >= p.k + (p.k + 7) / 8 || (p.scan_a->exact && p.scan_b->exact);
}

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

// How many tiles the launch computes: none if the other kernel computes the product.
__device__ __forceinline__ long long tiles_to_compute(const Problem& p) {
    return is_decomposed(p) == true ? p.tiles : 0;
}

// Tiles of a plane: of all products modulo one modulus.
__device__ __forceinline__ unsigned tiles_in_plane(const Problem& p) {
    return static_cast<unsigned>(p.tiles_m * p.tiles_n * p.batch[0] * p.batch[1] * p.batch[2]);
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

    // The element at (row, col), which must be inside.
    __device__ __forceinline__ Accumulator<T> read(Index row, Index col) const { return to_accumulator<T>(*address(row, col)); }

    // The tile of (height, width) elements that begins at (row, col), which must be inside.
    __device__ __forceinline__ View<T, Stored, ORDER> tile(Index row, Index col, int height, int width) const {
        return {address(row, col), inside(rows, row, height), inside(cols, col, width), row_stride, col_stride};
    }

    // The same part; (row, col) becomes (0, 0).
    __device__ __forceinline__ View from(Index row, Index col) const {
        return {address(row, col), rows - row, cols - col, row_stride, col_stride};
    }

    // The same part of the transposed matrix.
    __device__ __forceinline__ View<T, Stored, TRANSPOSED<ORDER>> transposed() const {
        return {data, cols, rows, col_stride, row_stride};
    }

    // Whether each contiguous row, or column, begins at a multiple of `bytes`.
    __device__ __forceinline__ bool is_aligned(int bytes) const {
        if constexpr (ORDER == Order::STRIDED) return false;
        const long long stride = ORDER == Order::ROWS ? row_stride : col_stride;
        return (reinterpret_cast<long long>(data) | stride * static_cast<long long>(sizeof(Stored))) % bytes == 0;
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

#ifndef TILEDMM_SIMULATOR

#define TILEDMM_MMA(shape_and_types, sum)                            \
    asm("mma.sync.aligned." shape_and_types                          \
        " { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, "      \
        "{ %0, %1, %2, %3 };"                                        \
        : "+" sum(c[0]), "+" sum(c[1]), "+" sum(c[2]), "+" sum(c[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// Before compute capability 8.0: half of the rows and half of k at a time.
#define TILEDMM_MMA_QUARTERS(shape_and_types)                                          \
    for (int i = 0; i < 4; ++i)                                                        \
    asm("mma.sync.aligned." shape_and_types " { %0, %1 }, { %2 }, { %3 }, { %0, %1 };" \
        : "+r"(c[i % 2 * 2]), "+r"(c[i % 2 * 2 + 1])                                   \
        : "r"(a[i]), "r"(b[i / 2]))

__device__ __forceinline__ void mma_uint8(unsigned (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    TILEDMM_MMA("m16n8k32.row.col.s32.u8.u8.s32", "r");
#else
    TILEDMM_MMA_QUARTERS("m8n8k16.row.col.s32.u8.u8.s32");
#endif
}

// Reads four (8, 8) matrices of 16-bit elements from shared memory. Lane 8 i + r points to row r of matrix i, 16 aligned bytes.
// registers[i] becomes word quad of row `row` of matrix i, or of its transpose.
template <bool TRANSPOSED>
__device__ __forceinline__ void load_matrices(unsigned (&registers)[4], const void* shared) {
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3 }, [%4];"
                     : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                     : "r"(from)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];"
                     : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                     : "r"(from)
                     : "memory");
}

#endif

// clang-format off
#define KERNEL tiledmm_split_float64_tensor_core_u8_u8_f64_u8x15_128x128x64_nt
using TA = uint8;   // an element of A in memory
using TB = uint8;   // an element of B in memory
using TC = uint8;   // an element of C in memory
using T = uint8;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::COLUMNS;
#define MMA mma_uint8   // the instruction of tensor cores
constexpr int BM = 128;   // rows of C a block computes
constexpr int BN = 128;   // columns of C a block computes
constexpr int BK = 64;   // step along K: how much of A's columns and B's rows is in a shared tile
constexpr int WM = 64;   // rows of C a warp computes
constexpr int WN = 64;   // columns of C a warp computes
constexpr int TM = 8;   // rows of C a thread computes
constexpr int TN = 16;   // columns of C a thread computes
constexpr int STAGES = 4;   // pipeline stages: shared tiles of A and B
constexpr int LANES_M = WM / TM, LANES_N = WN / TN;
[[maybe_unused]] constexpr int WARPS_N = BN / WN, WARPS = BM / WM * WARPS_N;
constexpr int THREADS = BM / TM * (BN / TN);
constexpr int MIN_BLOCKS = 1;   // resident on an SM: bounds registers
// clang-format on

constexpr bool ROUNDS = false;   // residues are bytes
// Swizzled tiles in shared memory, from which mma's fragments are read. Needs BK, THREADS, and ROUNDS: whether float32 is rounded to
// tf32 when it is read.

// The type of a fragment's registers: 32 bits of packed narrow elements, or one wide element (for decltype; never defined).
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

constexpr int MODULI = 15;   // pairwise coprime, the largest up to 256: residues are bytes

__device__ __forceinline__ constexpr uint32 modulus(int index) {
    constexpr uint32 table[MODULI] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197};
    return table[index];
}

// Four bytes, packed: the lowest of each word.
__device__ __forceinline__ uint32 packed(uint32 first, uint32 second, uint32 third, uint32 fourth) {
    return __byte_perm(__byte_perm(first, second, 0x40), __byte_perm(third, fourth, 0x40), 0x5410);
}

// What divides sums by a modulus m, whose index the compiler does not know. The negative spares a subtraction for each sum.
struct Divisor {
    uint32 negative;     // -m, modulo 2^32
    uint32 reciprocal;   // 2^32 / m, rounded down
};
__device__ __forceinline__ Divisor divisor_at(int index) {   // registers cannot be indexed
    Divisor divisor = {};
#pragma unroll
    for (int i = 0; i < MODULI; ++i)
        if (i == index) divisor = {0 - modulus(i), static_cast<uint32>((1ull << 32) / modulus(i))};
    return divisor;
}

// A sum of products of residues modulo m. The quotient may be one too small.
__device__ __forceinline__ uint32 reduced(uint32 sum, const Divisor& m) {
    const uint32 rest = __umulhi(sum, m.reciprocal) * m.negative + sum;
    return min(rest, rest + m.negative);
}

// A lane's 16 bytes of 64 columns of a row of C: residues of its elements in these.
struct alignas(16) LaneResidues {
    uint32 packed[4];
};

// Those of one half of the rows, from the lane's sums of 8 times 8 columns: two pairs of columns, 8 apart, are a word.
__device__ __forceinline__ LaneResidues packed_residues(const uint32* sums, int half) {
    LaneResidues residues;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint32* const four = &sums[i * 8 + half * 2];
        residues.packed[i] = packed(four[0], four[1], four[4], four[5]);
    }
    return residues;
}

// split_float64_tensor_core: split_float64 with mma.sync, for compute capability 8.0 and newer.
// Computes  C = A @ B modulo m, for each modulus m          A (PLANES,M,K)  B (PLANES,K,N)  C (PLANES,M,N), residues
//                              (decompose_residues.cu.j2, reconstruct.cu.j2)
// Launch    one block of THREADS threads per (BM, BN) tile of a plane of C, one warp per (WM, WN)
// Shared    STAGES * BK * (BM + BN), dynamic          Barriers  1 per K step
// Requires  K-major residues in rows that begin at multiples of 16; WN a multiple of 64, BK of DEPTH
// Source    Ozaki, Uchino and Imamura, "Ozaki Scheme II" (2025); PTX ISA, "Matrix instructions"
//
// Tiles are copied and read as in tensor_core, and residues are C's as in split_float64: sums are exact for LONGEST steps of k, and are
// reduced modulo m before more are added.
static_assert(LANES_M == 8 && LANES_N == 4, "an accumulator's layout is that of mma");
static_assert(WN % 64 == 0 && BK % DEPTH == 0, "whole groups of residues, and whole instructions");
constexpr int LONGEST = 66048 / BK * BK;   // steps of k before sums may pass 2^32
static_assert(LONGEST * 255ll * 255 + 255 < 1ll << 32, "sums of products of residues fit 32 bits");

struct Tiles {
    SwizzledTile<BM, Order::ROWS> a[STAGES];   // (STAGES, BM, BK)
    SwizzledTile<BN, Order::ROWS> b[STAGES];   // (STAGES, BN, BK)
};

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(memory);

    griddepcontrol_wait();                // for what the launches before this one write
    griddepcontrol_launch_dependents();   // not before: the next launch may read what these write
    if (blockIdx.x >= tiles_to_compute(p)) return;   // all of its threads exit: none waits at a barrier
    const unsigned in_plane = tiles_in_plane(p);
    const int plane = static_cast<int>(blockIdx.x / in_plane);
    const BlockTile block = locate_block_in_group(p, BM, BN, blockIdx.x - plane * in_plane);
    const Matrix<T, TA, Order::ROWS> A = {a + plane * p.plane_a + block.a0, p.m, p.k, p.a.row, 1};
    const Matrix<T, TB, Order::COLUMNS> B = {b + plane * p.plane_b + block.b0, p.k, p.n, 1, p.b.col};

    const int thread = threadIdx.x % THREADS;   // a no-op that tells the compiler the range
    const int warp = thread / 32, lane = thread % 32;
    const int m0 = warp / WARPS_N * WM, n0 = warp % WARPS_N * WN;   // this warp's first row and column of C
    const unsigned a_begin = tiles.a[0].begin_of_a(m0, lane), b_begin = tiles.b[0].begin_of_b(n0, lane);
    auto a_copies = swizzled_copies<BM>(A.tile(block.row0, 0, BM, BK), thread, true);   // rows of residues end with whole chunks
    auto b_copies = swizzled_copies<BN>(B.tile(0, block.col0, BK, BN).transposed(), thread, true);

    // prologue
    int k_to_load = static_cast<int>(p.k);   // steps of k whose copies have not been started
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage, k_to_load -= BK) {
        a_copies.fetch(tiles.a[stage], k_to_load);
        b_copies.fetch(tiles.b[stage], k_to_load);
        commit_copies();
    }

    // mainloop
    Sum sums[WM / 16][WN / 8][4] = {};   // of (16, 8) elements each
    const Divisor m = divisor_at(plane % MODULI);
    const auto reduce = [&] {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
#pragma unroll
            for (int j = 0; j < WN / 8; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) sums[i][j][e] = reduced(sums[i][j][e], m);
    };
    int stage = 0, summed = 0;
#pragma unroll 1   // unrolled it would only cost registers
    for (; k_to_load > -(STAGES - 1) * BK; k_to_load -= BK) {
        wait_for_copies_except<STAGES - 2>();
        __syncthreads();   // these tiles are complete, and nobody reads the previous ones any more
        if (summed == LONGEST) {
            reduce();
            summed = 0;
        }
        const int refilled = stage == 0 ? STAGES - 1 : stage - 1;
#pragma unroll
        for (int k = 0; k < BK; k += DEPTH) {
            Register frag_b[WN / 8][2];
            tiles.b[stage].read_b(frag_b, b_begin, k);
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                Register frag_a[4];
                tiles.a[stage].read_a(frag_a, a_begin, i * 16, k);
                if (k == 0 && k_to_load > 0) {   // between products, which overlap with the copies' address arithmetic
                    if (i == (WM / 16 - 1) / 2) a_copies.fetch(tiles.a[refilled], k_to_load);
                    if (i == WM / 16 - 1) b_copies.fetch(tiles.b[refilled], k_to_load);
                }
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) MMA(sums[i][j], frag_a, frag_b[j]);
            }
        }
        commit_copies();
        summed += BK;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    reduce();

    // epilogue
    const int rows = inside(p.m, block.row0, BM), cols = inside(p.n, block.col0, BN);
    TC* const to = c + plane * p.plane + block.c0 + block.row0 * p.pitch + block.col0 + lane % 4 * 16;
#pragma unroll
    for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = m0 + i * 16 + lane / 4 + half * 8;
#pragma unroll
            for (int group = 0; group < WN / 64; ++group)
                if (row < rows && n0 + group * 64 < cols)
                    *reinterpret_cast<LaneResidues*>(to + row * p.pitch + n0 + group * 64) = packed_residues(sums[i][group * 8], half);
        }
}
