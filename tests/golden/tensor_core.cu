// tiledmm_tensor_core_f16_128x128x32_nn
// Rendered by tiledmm 0.1.0 from tensor_core.cu.j2: bm=128 bn=128 bk=32 tm=8 tn=16 pad=0 stages=3 unroll=32 min_blocks=2 wm=64 wn=64 lanes=1 triangle=0 tiles_per_block=1 cluster=1

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

// Starts to copy 16 aligned bytes to shared memory, past L1: no other thread of the block reads them. L2 fetches their 128.
__device__ __forceinline__ void copy_chunk_async(void* shared, const void* from) {
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (TILEDMM_CP_ASYNC)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Commits this thread's copies to a group; waits until at most PENDING groups, or no copies, are in flight.
__device__ __forceinline__ void commit_copies() {
    if constexpr (TILEDMM_CP_ASYNC) asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int PENDING>
__device__ __forceinline__ void wait_for_copies_except() {
    if constexpr (TILEDMM_CP_ASYNC) asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// ---- conversions and arithmetic that keep subnormals, rounded to nearest even. CuPy compiles with -ftz=true, which flushes them
// to zero in plain C++, but neither in inline PTX nor in the *_ieee_* intrinsics. cuBLAS keeps them, too. ----

__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

#endif

using float32 = float;
using tf32 = float32;   // tensor cores ignore the last 13 bits of the significand

struct float16 {
    unsigned short bits;
};

// A stored element's value, as a type with arithmetic.
__device__ __forceinline__ float widen(float16 x) { return half_to_float(x.bits); }
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
template <>
struct Cast<float16> {
    template <class Number>
    static __device__ __forceinline__ float16 from(Number x) {
        return {float_to_half(Cast<float32>::from(x))};
    }
};

// Rounds float32 to tf32, 11 significant bits, ties away from zero; the 13 bits that tensor cores ignore are arbitrary. NaNs stay
// NaNs. (As cvt.rna.tf32.f32, except for NaNs.)
__device__ __forceinline__ unsigned rounded_to_tf32(float x) {
    const bool finite = fabsf(x) < __uint_as_float(0x7f800000u);
    return finite ? __float_as_uint(x) + (1u << 12) : __float_as_uint(x + x);   // quiets a NaN: the bit that is set is not ignored
}

// The type that products of two elements are accumulated in (for decltype; never defined).
__device__ float32 sum_type(float16);    // C is rounded once, at the end
__device__ float32 sum_type(float32);
template <class T>
using Accumulator = decltype(sum_type(T{}));

template <class A, class B>
constexpr bool SAME = false;
template <class A>
constexpr bool SAME<A, A> = true;

// A compile-time value as an argument, so that a generic lambda is compiled once for each.
template <bool VALUE>
struct Constant {
    static constexpr bool value = VALUE;
    constexpr __device__ operator bool() const { return VALUE; }
};

// A stored element, converted to the computation type T, as it is multiplied.
template <class T, class Stored>
__device__ __forceinline__ Accumulator<T> to_accumulator(Stored x) {
    if constexpr (SAME<T, Stored>) return Cast<Accumulator<T>>::from(widen(x));
    else return Cast<Accumulator<T>>::from(widen(Cast<T>::from(widen(x))));
}

// A finished sum as a value of type T: integers wrap. Sums of 16-bit floats are not rounded to T, so that a wider C keeps the
// float32 sum.
template <class T, class Sum>
__device__ __forceinline__ auto number_of(Sum sum) {
    return static_cast<decltype(widen(T{}))>(sum);
}

// A finished sum as it is stored in C.
template <class T, class Stored>
__device__ __forceinline__ Stored from_accumulator(Accumulator<T> sum) {
    return Cast<Stored>::from(number_of<T>(sum));
}

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

// The tile of a block, rasterized in groups of p.group columns (threadblock swizzle): row by row through a group, then the next, so
// that concurrent blocks share rows of A, too. Most quotients are 0, which a comparison tells sooner than a division.
__device__ __forceinline__ BlockTile locate_block_in_group(const Problem& p, int bm, int bn, unsigned linear = blockIdx.x) {
    const unsigned rows = static_cast<unsigned>(p.tiles_m), cols = static_cast<unsigned>(p.tiles_n), tiles = rows * cols;
    const unsigned product = linear < tiles ? 0 : linear / tiles, index = linear - product * tiles;
    const unsigned group = static_cast<unsigned>(p.group), first = index < rows * group ? 0 : index / (rows * group) * group;
    const unsigned width = cols - first < group ? cols - first : group, in_group = index - first * rows;
    return tile_at(p, product, in_group / width, first + in_group % width, bm, bn);
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

// The tile of C that a block writes; writes outside are dropped.
template <class T, class Stored>
struct ResultTile {
    Stored* data;   // element (0, 0)
    int rows, cols;
    long long row_stride, col_stride;

    __device__ __forceinline__ void write(int row, int col, Accumulator<T> sum) const {
        if (row < rows && col < cols) data[row * row_stride + col * col_stride] = from_accumulator<T, Stored>(sum);
    }

    // Whether rows are contiguous, begin at multiples of `bytes`, and are whole numbers of them.
    __device__ __forceinline__ bool has_vectors(int bytes) const {
        constexpr long long SIZE = sizeof(Stored);
        return col_stride == 1 && (reinterpret_cast<long long>(data) | row_stride * SIZE | cols * SIZE) % bytes == 0;
    }
};

// The block's tile of (height, width) elements of C.
template <class T, class Stored>
__device__ __forceinline__ ResultTile<T, Stored> result_tile(Stored* data, const Problem& p, const BlockTile& block,
                                                             int height, int width) {
    return {data + block.c0 + block.row0 * p.c.row + block.col0 * p.c.col, inside(p.m, block.row0, height),
            inside(p.n, block.col0, width), p.c.row, p.c.col};
}

#ifndef TILEDMM_SIMULATOR

#define TILEDMM_MMA(shape_and_types, sum)                            \
    asm("mma.sync.aligned." shape_and_types                          \
        " { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, "      \
        "{ %0, %1, %2, %3 };"                                        \
        : "+" sum(c[0]), "+" sum(c[1]), "+" sum(c[2]), "+" sum(c[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// C += A @ B, float16 accumulated in float32.
__device__ __forceinline__ void mma_float16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    TILEDMM_MMA("m16n8k16.row.col.f32.f16.f16.f32", "f");
#else   // half of k at a time
    for (int i = 0; i < 2; ++i)
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 { %0, %1, %2, %3 }, { %4, %5 }, { %6 }, { %0, %1, %2, %3 "
            "};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
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
#define KERNEL tiledmm_tensor_core_f16_128x128x32_nn
using TA = float16;   // an element of A in memory
using TB = float16;   // an element of B in memory
using TC = float16;   // an element of C in memory
using T = float16;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
#define MMA mma_float16   // the instruction of tensor cores
constexpr int BM = 128;   // rows of C a block computes
constexpr int BN = 128;   // columns of C a block computes
constexpr int BK = 32;   // step along K: how much of A's columns and B's rows is in a shared tile
constexpr int WM = 64;   // rows of C a warp computes
constexpr int WN = 64;   // columns of C a warp computes
constexpr int TM = 8;   // rows of C a thread computes
constexpr int TN = 16;   // columns of C a thread computes
constexpr int STAGES = 3;   // pipeline stages: shared tiles of A and B
constexpr int LANES_M = WM / TM, LANES_N = WN / TN;
[[maybe_unused]] constexpr int WARPS_N = BN / WN, WARPS = BM / WM * WARPS_N;
constexpr int THREADS = BM / TM * (BN / TN);
constexpr bool FITS = __CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 1000;   // others spill
constexpr int MIN_BLOCKS = FITS ? 2 : 1;   // resident on an SM: bounds registers
// clang-format on

constexpr bool ROUNDS = true;
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
                if (row0 + row < tile.rows && col0 + col < tile.cols)
                    c[row * tile.row_stride + col * tile.col_stride] = *at(row, col);
            }
        }
    }
};

// tensor_core: a warp multiplies (16, DEPTH) by (DEPTH, 8) elements with one instruction, mma.sync, on tensor cores.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N), 16-bit floats and tf32 summed in float32, 8-bit integers, or float64
//           and complex128
// Launch    one block of THREADS threads per (BM, BN) tile of C, one warp per (WM, WN)
// Shared    STAGES * BK * (BM + BN) * sizeof(T), dynamic; or, if that is more, 8 * WN * sizeof(TC) a warp for C
//           Barriers  1 per K step, and 1 before C is written
// Requires  WM and WN powers of 2, at least 16 (tf32: 32), BK of 64 or 128 bytes; every thread copies the same number of vectors
// Source    PTX ISA, "Matrix instructions"; CUTLASS, "Efficient GEMM in CUDA"
//
// Tiles have their matrices' order. ldmatrix reads fragments of 16-bit elements, and transposes those of MN-major tiles. It cannot
// transpose other types: tiles of bytes are always K-major; tf32 is read one element at a time from MN-major tiles, and wider types
// always are. tf32 is rounded as it is read. Accumulators are distributed over a warp's lanes as tensor_cores.cuh says.
//
// Accumulators and fragments fill the registers, so few warps are resident, and each must always have something to multiply:
// fragments are read DEPTH steps of k ahead, across barriers too. Those of B are double-buffered; those of A are replaced row by row,
// each after its products. Copies and reads need few instructions: their addresses differ by constants, or by one XOR.
static_assert(LANES_M == 8 && LANES_N == 4, "an accumulator's layout is that of mma");
static_assert(!SAME<T, tf32> || (WM % 32 == 0 && WN % 32 == 0), "elements are read one at a time, from 8 chunks at once");
static_assert((WM & (WM - 1)) == 0 && (WN & (WN - 1)) == 0, "a warp's first chunk differs from the others in bits of its index");
constexpr int SHARE = BK;   // steps of k of a tile that a warp multiplies
constexpr int SETS = 2, COPIES_OF_B = 0;   // sets of B's fragments; when B's copies are issued: at once with A's
static_assert(BK % (SETS * DEPTH) == 0, "B's fragments alternate between the sets of registers");
constexpr int LEAD = (STAGES - 1) * BK;   // steps of k by which copies precede products

struct Tiles {
    SwizzledTile<BM, ORDER_A> a[STAGES];               // (STAGES, BM, BK), or (STAGES, BK, BM)
    SwizzledTile<BN, TRANSPOSED<ORDER_B>> b[STAGES];   // (STAGES, BN, BK), or (STAGES, BK, BN)
};
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    KERNEL(const TA* __restrict__ a, const TB* __restrict__ b, TC* __restrict__ c, const Problem p) {
    extern __shared__ __align__(128) unsigned char memory[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(memory);

    griddepcontrol_wait();                // for what the launches before this one write
    griddepcontrol_launch_dependents();   // not before: the next launch may read what these write
    const BlockTile block = locate_block_in_group(p, BM, BN);
    const Matrix<T, TA, ORDER_A> A = {a + block.a0, p.m, block.k, p.a.row, p.a.col};
    const Matrix<T, TB, ORDER_B> B = {b + block.b0, block.k, p.n, p.b.row, p.b.col};
    const auto c_tile = result_tile<T>(c, p, block, BM, BN);   // (BM, BN)
    const int thread = threadIdx.x % THREADS;   // a no-op that tells the compiler the range
    const int warp = thread / 32, lane = thread % 32;
    const int m0 = warp / WARPS_N * WM, n0 = warp % WARPS_N * WN;   // this warp's first row and column of C

    // Where this lane begins to read a tile's fragments.
    const unsigned a_begin = tiles.a[0].begin_of_a(m0, lane), b_begin = tiles.b[0].begin_of_b(n0, lane);
    auto a_copies = swizzled_copies<BM>(A.tile(block.row0, 0, BM, BK), thread);
    auto b_copies = swizzled_copies<BN>(B.tile(0, block.col0, BK, BN).transposed(), thread);

    // prologue
    int k_to_load = static_cast<int>(block.k);   // steps of k whose copies have not been started
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage, k_to_load -= BK) {
        if (TILEDMM_CP_ASYNC && a_copies.whole && b_copies.whole && k_to_load >= BK) {
            a_copies.fetch_whole(tiles.a[stage]);
            b_copies.fetch_whole(tiles.b[stage]);
        } else {
            a_copies.fetch(tiles.a[stage], k_to_load);
            b_copies.fetch(tiles.b[stage], k_to_load);
        }
        commit_copies();
    }

    // mainloop
    Sum acc[WM / 16][WN / 8][4] = {};   // of (16, 8) elements each
    Register frag_a[WM / 16][4], frag_b[SETS][WN / 8][2];
    int stage = 0;
    wait_for_copies_except<STAGES - 2>();
    __syncthreads();   // the first tiles are complete before anyone reads them
    tiles.b[0].read_b(frag_b[0], b_begin, 0);
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) tiles.a[0].read_a(frag_a[i], a_begin, i * 16, 0);
    const auto multiply_tiles = [&](auto whole) {
        const bool more = whole.value || k_to_load > BK - LEAD;
        const int refilled = stage == 0 ? STAGES - 1 : stage - 1;   // which all threads finished reading before the last barrier
#pragma unroll
        for (int k = 0; k < SHARE; k += DEPTH) {
            if (k == 0) {
                if (whole.value) a_copies.fetch_whole(tiles.a[refilled]);
                else if (k_to_load > 0) a_copies.fetch(tiles.a[refilled], k_to_load);
            }
            if (k == COPIES_OF_B) {
                if (whole.value) b_copies.fetch_whole(tiles.b[refilled]);
                else if (k_to_load > 0) b_copies.fetch(tiles.b[refilled], k_to_load);
                commit_copies();
            }
            if (k == SHARE - DEPTH) {
                if (whole.value) {
                    a_copies.store_whole(tiles.a[refilled]);
                    b_copies.store_whole(tiles.b[refilled]);
                }
                k_to_load -= BK;
                stage = stage + 1 == STAGES ? 0 : stage + 1;
                wait_for_copies_except<STAGES - 2>();
                __syncthreads();   // the next tiles are complete, and nobody reads the current ones any more
            }
            const bool ahead = k < SHARE - DEPTH || more;   // fragments that follow the stage's last are in the next stage
            const int set = k / DEPTH % SETS, next = (k + DEPTH) % SHARE;
            if (ahead) tiles.b[stage].read_b(frag_b[1 - set], b_begin, next);
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    MMA(acc[i][j], frag_a[i], frag_b[set][j]);
                }
                if (ahead) tiles.a[stage].read_a(frag_a[i], a_begin, i * 16, next);
            }
        }
    };
    // Whole tiles, which most are, need no guards: the loop has no branches, and few instructions between products.
    if (a_copies.whole && b_copies.whole)
#pragma unroll 1   // unrolled it would only cost registers
        while (k_to_load >= BK) multiply_tiles(Constant<true>{});
#pragma unroll 1
    while (k_to_load > -LEAD) multiply_tiles(Constant<false>{});

    // epilogue: 8 rows of a warp at a time are rearranged in shared memory, so that a lane writes 16 bytes
    wait_for_copies_except<0>();   // copies beyond the end have written their zeros,
    __syncthreads();               // and everyone has read the last tiles, before rows overwrite them
    auto& rows = reinterpret_cast<SwizzledRows<WN>*>(memory)[warp];
    const bool aligned = c_tile.has_vectors(16);
#pragma unroll
    for (int i = 0; i < WM / 8; ++i) {
        rows.put(acc[i / 2], i % 2 * 2, lane);
        __syncwarp();   // the rows are complete before anyone reads them
        rows.write(c_tile, m0 + i * 8, n0, aligned, lane);
        __syncwarp();   // everyone has read the rows before the next overwrite them
    }
}
