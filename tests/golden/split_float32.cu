// tiledmm_split_float32_f16_f16_f16_f32x3_256x256x64_nn
// Rendered by tiledmm 0.1.0 from split_float32.cu.j2: bm=256 bn=256 bk=64 tm=2 tn=64 pad=0 stages=2 unroll=64 min_blocks=1 wm=16 wn=256 lanes=1 triangle=0 tiles_per_block=1 cluster=2 scheme=fp16x3

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

// ---- conversions and arithmetic in which subnormals are kept, rounded to nearest even. CuPy compiles with -ftz=true, under
// which plain C++ flushes them to zero; inline PTX and the *_ieee_* intrinsics are not touched by that, and cuBLAS keeps them ----

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

__device__ __forceinline__ float add(float x, float y) {
    float sum;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(x), "f"(y));
    return sum;
}

#endif

using uint16 = unsigned short;
using uint32 = unsigned int;
using float32 = float;

struct float16 {
    uint16 bits;
};

// A stored element as the number it is.
__device__ __forceinline__ float widen(float16 x) { return half_to_float(x.bits); }
template <class T>
__device__ __forceinline__ T widen(T x) {
    return x;
}

// A number as an element of another type, rounded to nearest even.
template <class To>
struct Cast {
    template <class From>
    static __device__ __forceinline__ To from(From x) {
        return static_cast<To>(x);
    }
};
template <>
struct Cast<float32> {
    static __device__ __forceinline__ float32 from(float32 x) { return x; }
    template <class Integer>
    static __device__ __forceinline__ float32 from(Integer x) {
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

// What products of two elements are summed in (declared to be looked up, never called).
__device__ float32 sum_type(float16);    // rounded once, at the end
__device__ float32 sum_type(float32);
__device__ uint32 sum_type(uint16);   // wraps
__device__ uint32 sum_type(uint32);   // wraps
template <class T>
using Accumulator = decltype(sum_type(T{}));

__device__ __forceinline__ float32 multiply_add(float32 a, float32 b, float32 sum) { return __fmaf_ieee_rn(a, b, sum); }
__device__ __forceinline__ uint32 multiply_add(uint32 a, uint32 b, uint32 sum) { return a * b + sum; }

__device__ __forceinline__ uint32 add(uint32 x, uint32 y) { return x + y; }

// A value as a type, for a function to be compiled for each.
template <bool VALUE>
struct Constant {
    static constexpr bool value = VALUE;
};

// A finished sum as a number of type T: integers wrap. Sums of 16-bit floats are not rounded to T, so that a wider C gets all
// of a float32 sum.
template <class T, class Sum>
__device__ __forceinline__ auto number_of(Sum sum) {
    return static_cast<decltype(widen(T{}))>(sum);
}

// It as it is stored in C.
template <class T, class Stored>
__device__ __forceinline__ Stored from_accumulator(Accumulator<T> sum) {
    return Cast<Stored>::from(number_of<T>(sum));
}

// What is contiguous in memory: rows, columns, or neither (a slice with a step, a reversed or broadcast axis).
enum class Order { ROWS, COLUMNS, STRIDED };

struct Strides {   // in elements; may be negative or zero
    long long row, col, batch[3];
};

// What was found of an operand as its float32 numbers were split into pieces (split.cu.j2), its rows; of B, its columns.
// A complex element is two such numbers.
struct Findings {
    int usual;         // of the row that has fewest: numbers within a factor of 2^7 of its largest, with 14 bits or more
    int short_ones;    // 0 if a number has more bits than its first piece, or is far too small beside its row's largest; 1 if none
                       // has, but some are below a 2^5th of their row's largest
    int scale;         // least power of two by which a row was multiplied, so that its largest lies between 2^14 and 2^15
    int exponent[1];   // of each row: its numbers are 2 to this power times the sums of their pieces
};

// A power of two as the product of two floats, for exponents to twice a float's.
struct Power {
    float first, second;

    __device__ __forceinline__ float times(float x) const { return multiply_add(multiply_add(x, first, -0.0f), second, -0.0f); }
};

__device__ __forceinline__ Power power_of_two(int exponent) {
    const int half = exponent / 2;
    return {__uint_as_float(static_cast<unsigned>(half + 127) << 23),
            __uint_as_float(static_cast<unsigned>(exponent - half + 127) << 23)};
}

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
    long long piece_a, piece_b;   // elements from one limb of A to the next, and of B
    Findings *of_a, *of_b;
};

constexpr int PARTS = 1;   // real numbers of an element: 2 of a complex one

// Whether products of pieces are as accurate as float32's, and exact where these are. What two pieces drop of an element is
// 2^-23 of it, or of float16 2^-39 of its row's largest. That is nothing beside a sum that has an eighth of its terms near the
// largest, which float32 rounds as often; and terms of 28 bits are not exact in float32 either. Elements that are one piece, all
// of them, lose nothing; but where they lie far apart, few products of a sum are large, and a chain of multiply-adds rounds that
// less often than tensor cores cut it off: so they are alike, or sums are long.
__device__ __forceinline__ bool splits(const Problem& p) {
    const long long usual = static_cast<long long>(p.of_a->usual) + p.of_b->usual;
    const long long scale = static_cast<long long>(p.of_a->scale) + p.of_b->scale;
    if (scale - (64 - __clzll(PARTS * p.k)) < 2 * 15 - 127) return false;   // float32's sums may overflow
    const int apart = PARTS * p.k < 1024 ? 1 : 0;
    return usual >= PARTS * p.k + PARTS * p.k / 8 || (p.of_a->short_ones > apart && p.of_b->short_ones > apart);
}

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

// How many tiles a launch computes.
__device__ __forceinline__ long long tiles_to_compute(const Problem& p) {
    return splits(p) == true ? p.tiles : 0;   // else another kernel does
}

// How many of `size` rows or columns from `first` on lie inside a matrix that has `extent` of them.
__device__ __forceinline__ int inside(long long extent, long long first, int size) {
    const long long left = extent - first;
    return left < size ? static_cast<int>(left) : size;
}

// Contiguous elements, which one instruction moves.
template <class Element, int N>
struct alignas(N * sizeof(Element)) Vector {
    Element element[N];
};

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

// Hopper's asynchronous units (compute capability 9.0): the copy engine for tiles (TMA), barriers in shared memory that count
// bytes, and tensor cores that a warpgroup, four warps, starts and waits for. Inline PTX stands in this file,
// wgmma_multiply.cuh.j2, ptx.cuh and tensor_cores.cuh only.
// Source: PTX ISA, "cp.async.bulk.tensor", "mbarrier", "Asynchronous warpgroup level matrix instructions".

constexpr int WARPGROUP = 128;    // threads that start a multiplication together
constexpr int SWIZZLED = 128;     // bytes of a line of a swizzled tile; the 16-byte chunks of 8 lines change places

// How a matrix lies in memory, as the driver encodes it for the copy engine. A kernel's parameter, __grid_constant__: the
// engine reads it from there.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// ---- barriers: a phase ends when so many have arrived and all bytes that were expected are there ----

struct Barrier {
    unsigned long long state;

    __device__ __forceinline__ void init(int arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals));
    }
    // At the barrier in this place of a block of the cluster. Without .release.cluster: that would be a full fence every step.
    __device__ __forceinline__ void arrive_in(int block) {
        asm volatile(
            "{\n .reg .b32 there;\n"
            " mapa.shared::cluster.u32 there, %0, %1;\n"
            " mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(shared_address(this)),
            "r"(block)
            : "memory");
    }
    __device__ __forceinline__ void arrive_and_expect(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)), "r"(bytes) : "memory");
    }
    // Waits for the end of the phase of this parity: 0 for the first, 1 for the second, and so on in turns.
    __device__ __forceinline__ void wait(unsigned parity) {
        unsigned over = 0;
        while (!over)
            asm volatile(
                "{\n .reg .pred over;\n"
                " mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                " selp.u32 %0, 1, 0, over;\n}"
                : "=r"(over)
                : "r"(shared_address(this)), "r"(parity)
                : "memory");
    }
};

// After the barriers were initialised, before the copy engine sees them.
__device__ __forceinline__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// ---- tiles from global to shared memory ----

// Copies the box that begins at these coordinates, neighbours in memory first; outside the matrix it has zeros. The barrier
// counts its bytes.
__device__ __forceinline__ void copy_box(void* shared, const TensorMap& map, Barrier& barrier, const int (&at)[5]) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5, %6, %7 }], [%2];"
        :
        : "r"(shared_address(shared)), "l"(&map), "r"(shared_address(&barrier)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
          "r"(at[3]), "r"(at[4])
        : "memory");
}

// Copies it to the same place in every block of the cluster that has a bit in `blocks`, and each block's barrier counts.
__device__ __forceinline__ void copy_box_to(int blocks, void* shared, const TensorMap& map, Barrier& barrier, const int (&at)[5]) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, { %3, %4, %5, %6, %7 }], [%2], %8;"
        :
        : "r"(shared_address(shared)), "l"(&map), "r"(shared_address(&barrier)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
          "r"(at[3]), "r"(at[4]), "h"(static_cast<short>(blocks))
        : "memory");
}

// ---- clusters: blocks that run at the same time and reach each other's shared memory ----

// Every thread of every block of the cluster is here, and sees barriers that were fenced, no more: that takes no full fence.
__device__ __forceinline__ void meet_after_fence() {
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}

// Every thread of every block of the cluster is here.
__device__ __forceinline__ void meet_in_cluster() {
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

// ---- registers that warpgroups pass on to each other ----

template <int COUNT>
__device__ __forceinline__ void give_registers() {   // keeps so many
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void take_registers() {   // has so many then
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// ---- multiplications by a warpgroup ----

// Orders what the warpgroup did with registers and shared memory before what the tensor cores do with them.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// What was started since the last call is a group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// What the tensor cores have written: the compiler must not read it before this.
__device__ __forceinline__ void hold(float& sum) { asm volatile("" : "+f"(sum)::"memory"); }
__device__ __forceinline__ void hold(unsigned& sum) { asm volatile("" : "+r"(sum)::"memory"); }

// Waits until no more than PENDING groups are on their way. `sums` are what they add to.
template <int PENDING, class Sum, int N>
__device__ __forceinline__ void wgmma_wait(Sum (&sums)[N]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
    if constexpr (PENDING == 0) {
#pragma unroll
        for (int i = 0; i < N; ++i) hold(sums[i]);
    }
}

// Where a tile lies, as a multiplication is told: lines of 128 bytes, swizzled. LEADING: bytes from 64 neighbours to the next
// 64, where a line has so many along m or n; 8 lines further is 1,024 bytes further.
template <int LEADING>
__device__ __forceinline__ unsigned long long descriptor_of(const void* shared) {
    constexpr unsigned long long LINES = 8 * SWIZZLED, MODE = 1;   // swizzled within 128 bytes
    return (shared_address(shared) & 0x3ffff) >> 4 | static_cast<unsigned long long>(LEADING >> 4) << 16 | (LINES >> 4) << 32 |
           MODE << 62;
}

// clang-format off
#define KERNEL tiledmm_split_float32_f16_f16_f16_f32x3_256x256x64_nn
using TA = float16;   // an element of A in memory
using TB = float16;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float16;   // what elements are converted to, and multiplied as
using Sum = Accumulator<T>;   // what their products are summed in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 256;   // rows of C a cluster computes
constexpr int BN = 256;   // columns of C a cluster computes
constexpr int BK = 64;   // step along K: a line of 128 bytes
constexpr int STAGES = 2;   // tiles of A and of B in shared memory: one is multiplied while the others are on their way
constexpr int CLUSTER = 2;   // blocks that share tiles of B, one below the other
constexpr int ROWS = BM / CLUSTER;       // of C that a block computes
constexpr int CONSUMERS = ROWS / 64;     // warpgroups that multiply, 64 rows each; one more sends for tiles
constexpr int THREADS = (CONSUMERS + 1) * 128;
// clang-format on

// Tiles lie in shared memory as the matrices lie in memory, in lines of 128 bytes: where neighbours are successive k, ROWS or BN
// lines; where they are successive m or n, BK lines for every 64 of them (a slab). The copy engine swizzles them on the way.
constexpr bool A_ALONG_K = ORDER_A == Order::ROWS, B_ALONG_K = ORDER_B == Order::COLUMNS;
constexpr int LINE = SWIZZLED / sizeof(TA);            // elements
constexpr int SLAB = BK * LINE;                        // elements
constexpr int PART_B = BN / CLUSTER;                   // columns of B that a block sends for
constexpr int DEPTH = 32 / sizeof(TA);                 // steps of k of an instruction
constexpr int REGISTERS = 224, OTHERS = 56;   // of a thread that multiplies, and of one that sends
static_assert(BK == LINE, "a step along K is a line");
static_assert(B_ALONG_K || PART_B % LINE == 0, "whole slabs");

// The barriers of all stages, for every block of the cluster: a stage is full when its tiles are there, and empty when a lane of
// every warp that multiplies, in every block, says so. A warp does this that has nothing else to do.
__device__ __forceinline__ void begin_stages(Barrier (&full)[STAGES], Barrier (&empty)[STAGES]) {
    if (threadIdx.x == CONSUMERS * WARPGROUP + 32) {
        for (int stage = 0; stage < STAGES; ++stage) {
            full[stage].init(1);
            empty[stage].init(CLUSTER * CONSUMERS * 4);
        }
        fence_barriers();
    }
    if (CLUSTER > 1) meet_after_fence();
    else __syncthreads();   // the barriers are there
}

// Nobody sends to a block that has left.
__device__ __forceinline__ void leave_together() {
    if (CLUSTER > 1) meet_in_cluster();
}

// What a block computes: ROWS rows of a tile of C, and then of the next one that no other cluster takes.
struct Work {
    const Problem& p;
    int columns;   // of C in a tile
    unsigned number, count;
    BlockTile tile;

    __device__ __forceinline__ Work(const Problem& p, int columns)
        : p(p), columns(columns), number(blockIdx.x / CLUSTER), count(static_cast<unsigned>(tiles_to_compute(p))) {
        locate();
    }
    __device__ __forceinline__ bool is_left() const { return number < count; }
    __device__ __forceinline__ void next() {
        number += gridDim.x / CLUSTER;
        if (is_left()) locate();
    }
    __device__ __forceinline__ void locate() {
        tile = locate_block_in_group(p, BM, columns, number);
        tile.row0 += blockIdx.x % CLUSTER * ROWS;
    }
};

// A stage and how often it came round: the parity of its barriers' phases.
struct Turn {
    int stage;
    unsigned parity;

    __device__ __forceinline__ void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
};

// Sends for a part of a tile, WIDTH rows of A or columns of B from `across` on, for all of the cluster's blocks or for this one.
// `batch`: the matrix's place among those of its map.
template <bool ALONG_K, int WIDTH, int BLOCKS>
__device__ __forceinline__ void send_for(TA* part, const TensorMap& map, Barrier& barrier, long long across, long long k, const int (&batch)[3]) {
#pragma unroll
    for (int slab = 0; slab < (ALONG_K ? 1 : WIDTH / LINE); ++slab) {
        const int line = static_cast<int>(across) + slab * LINE, step = static_cast<int>(k);
        const int at[5] = {ALONG_K ? step : line, ALONG_K ? line : step, batch[2], batch[1], batch[0]};
        if constexpr (BLOCKS == 1) copy_box(part + slab * SLAB, map, barrier, at);
        else copy_box_to((1 << BLOCKS) - 1, part + slab * SLAB, map, barrier, at);
    }
}

using Number = float32;   // what C's elements are: PARTS real numbers
constexpr int PIECES = 2;       // that a real number is the sum of
constexpr int PRODUCTS = 3;   // of pieces, in one of elements: those of the smallest pieces may be left out

// Sum of the numbers of the smallest pieces that are multiplied: small products are summed first.
constexpr int FIRST = PRODUCTS == PIECES * PIECES ? 2 * PIECES - 2 : PIECES - 1;

// x times 2^exponent, rounded once; below this bound it is 0, whatever x is, and exponents of rows and columns reach no 2^254.
__device__ __forceinline__ float times_power(float x, int exponent) {
    return power_of_two(exponent < -252 ? -252 : exponent).times(x);
}

// 2^exponent, of exponents so near 0 that the product of two such is a float's, too: most are.
constexpr int NEAR = 63;
__device__ __forceinline__ bool is_near(int exponent) { return -NEAR <= exponent && exponent <= NEAR; }
__device__ __forceinline__ float near_power(int exponent) { return __uint_as_float(static_cast<unsigned>(exponent + 127) << 23); }

// The exponents of a warp's columns of C. Of every 8 columns of real numbers, from `first` on, a lane has sums of two, as 7 others
// do (mma): each reads an eighth of theirs, all at once, and hands them on, two in a word.
template <int COUNT>
struct ColumnExponents {
    int own[(COUNT + 7) / 8];
    bool near = true;

    __device__ __forceinline__ void read(const int* of_cols, int first, int cols, int lane) {
#pragma unroll
        for (int i = 0; i < (COUNT + 7) / 8; ++i) {
            const int j = i * 8 + lane / 4, col = first + j * 8 + lane % 4 * 2, left = col / PARTS, right = (col + 1) / PARTS;
            const int of_left = j < COUNT && left < cols ? of_cols[left] : 0, of_right = j < COUNT && right < cols ? of_cols[right] : 0;
            own[i] = of_right * 0x10000 + (of_left & 0xffff);
            near = near && is_near(of_left) && is_near(of_right);
        }
    }

    // Of this lane's columns of eight.
    __device__ __forceinline__ void of(int eight, int (&two)[2], int lane) const {
        const int word = __shfl_sync(0xffffffffu, own[eight / 8], eight % 8 * 4 + lane % 4);
        two[0] = static_cast<short>(word);
        two[1] = word >> 16;
    }
};

// Writes the sums of rows `row` and `row` + 8 that mma left in a lane, from column `first` of real numbers on. Rows and columns
// get back the powers of two that they were divided by. As a rule these are near, and neighbours are written together.
template <int COUNT>
__device__ __forceinline__ void write_scaled(const ResultTile<Number, TC>& tile, int row, int first, const float* sums,
                                             const int* of_rows, const ColumnExponents<COUNT>& of_cols, int lane) {
    constexpr int TOGETHER = 2 / PARTS;   // elements of C
    const int of_row[2] = {row < tile.rows ? of_rows[row] : 0, row + 8 < tile.rows ? of_rows[row + 8] : 0};
    const auto write = [&](auto as_a_rule) {
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            const int col = (first + j * 8 + lane % 4 * 2) / PARTS;
            int of_col[2];
            of_cols.of(j, of_col, lane);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float* const pair = &sums[j * 4 + half * 2];
                const int line = row + half * 8;
                alignas(8) float scaled[2];
                const auto* const numbers = reinterpret_cast<const Number*>(scaled);
                if constexpr (decltype(as_a_rule)::value) {
#pragma unroll
                    for (int e = 0; e < 2; ++e)
                        scaled[e] = multiply_add(pair[e], near_power(of_row[half]) * near_power(of_col[e]), -0.0f);
                    if (line < tile.rows && col < tile.cols) tile.template write_vector<TOGETHER>(line, col, numbers);
                } else {
#pragma unroll
                    for (int e = 0; e < 2; ++e) scaled[e] = times_power(pair[e], of_row[half] + of_col[e]);
                    tile.template write_row<TOGETHER>(line, col, numbers);
                }
            }
        }
    };
    const bool near = __all_sync(0xffffffffu, of_cols.near && is_near(of_row[0]) && is_near(of_row[1]));
    if (near && tile.has_aligned_rows(TOGETHER * sizeof(TC)) && tile.cols % TOGETHER == 0) write(Constant<true>{});
    else write(Constant<false>{});
}

// split_float32: products in float32 from tensor cores of 16-bit floats, or of tf32 numbers.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N), float32 numbers as sums of such (split.cu.j2); of complex numbers
//                                as real ones, A (M,2K)  B (2K,2N)  C (M,2N), by which BN and BK count
// Launch    as many blocks of THREADS threads as there are SMs: a cluster computes one (BM, BN) tile of C after the other
// Shared    STAGES * BK * (ROWS + BN) * PIECES * sizeof(T), dynamic          Barriers  two a stage
// Requires  compute capability 9.0; A's and B's pieces as tensor maps, along k where they are of tf32, and strides that count
//           matrices of their batches
// Source    Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores" (2022); CUTLASS, "Warp specialization"
//
// Tiles come and go as in wgmma. Tensor cores add without rounding, they cut off: over a long sum that is a bias, and more than
// float32 loses. So they sum BK steps of k at a time, small products first, from zero, and what comes of that is added to the
// sum in float32, rounded: half of a tile's columns at a time, or a thread's registers would not do.
static_assert(sizeof(T) == 2 || (A_ALONG_K && B_ALONG_K), "tensor cores transpose 16-bit elements only");
constexpr int COLUMNS = BN < 128 ? BN : 128;   // of the tile that are summed at a time

struct Tiles {
    T a[STAGES][PIECES][ROWS * BK];
    T b[STAGES][PIECES][BN * BK];
    Barrier full[STAGES];    // its tiles are there
    Barrier empty[STAGES];   // they were multiplied
};

// C += A @ B for 64 rows, from shared memory. A warp has 16 of the rows, with row = lane / 4 and
// quad = lane % 4 of element (row + i / 2 % 2 * 8, i / 4 * 8 + 2 * quad + i % 2) in c[i].
__device__ __forceinline__ void multiply(Accumulator<TA> (&c)[64], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 { "
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63"
        " }, %64, %65, 1"
        ", 1, 1, %66, %67;"
        :
        "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
        "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
        "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
        "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
        "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
        "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
        : "l"(a), "l"(b), "n"(A_ALONG_K ? 0 : 1), "n"(B_ALONG_K ? 0 : 1));
}

// C = A @ B (scale_d is 0) for 64 rows, from shared memory. A warp has 16 of the rows, with row = lane / 4 and
// quad = lane % 4 of element (row + i / 2 % 2 * 8, i / 4 * 8 + 2 * quad + i % 2) in c[i].
__device__ __forceinline__ void multiply_zeroed(Accumulator<TA> (&c)[64], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 { "
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63"
        " }, %64, %65, 0"
        ", 1, 1, %66, %67;"
        :
        "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3]), "=f"(c[4]), "=f"(c[5]), "=f"(c[6]), "=f"(c[7]),
        "=f"(c[8]), "=f"(c[9]), "=f"(c[10]), "=f"(c[11]), "=f"(c[12]), "=f"(c[13]), "=f"(c[14]), "=f"(c[15]),
        "=f"(c[16]), "=f"(c[17]), "=f"(c[18]), "=f"(c[19]), "=f"(c[20]), "=f"(c[21]), "=f"(c[22]), "=f"(c[23]),
        "=f"(c[24]), "=f"(c[25]), "=f"(c[26]), "=f"(c[27]), "=f"(c[28]), "=f"(c[29]), "=f"(c[30]), "=f"(c[31]),
        "=f"(c[32]), "=f"(c[33]), "=f"(c[34]), "=f"(c[35]), "=f"(c[36]), "=f"(c[37]), "=f"(c[38]), "=f"(c[39]),
        "=f"(c[40]), "=f"(c[41]), "=f"(c[42]), "=f"(c[43]), "=f"(c[44]), "=f"(c[45]), "=f"(c[46]), "=f"(c[47]),
        "=f"(c[48]), "=f"(c[49]), "=f"(c[50]), "=f"(c[51]), "=f"(c[52]), "=f"(c[53]), "=f"(c[54]), "=f"(c[55]),
        "=f"(c[56]), "=f"(c[57]), "=f"(c[58]), "=f"(c[59]), "=f"(c[60]), "=f"(c[61]), "=f"(c[62]), "=f"(c[63])
        : "l"(a), "l"(b), "n"(A_ALONG_K ? 0 : 1), "n"(B_ALONG_K ? 0 : 1));
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    KERNEL(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, TC* __restrict__ c,
           const __grid_constant__ Problem p) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(memory);
    const int warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const int place = blockIdx.x % CLUSTER;   // of this block in its cluster
    Work work(p, BN / PARTS);   // the first tile is found while barriers are initialised
    begin_stages(tiles.full, tiles.empty);
    Turn turn = {0, 0};
    if (warpgroup == CONSUMERS) {
        give_registers<OTHERS>();
        for (; thread == 0 && work.is_left(); work.next()) {
            const BlockTile& tile = work.tile;
            for (int k = 0; k < PARTS * tile.k; k += BK, turn.next()) {
                Barrier& full = tiles.full[turn.stage];
                tiles.empty[turn.stage].wait(turn.parity ^ 1);   // the first time round it is
                full.arrive_and_expect(PIECES * (ROWS + BN) * BK * sizeof(T));
                for (int piece = 0; piece < PIECES; ++piece) {
                    const int in_a[3] = {0, piece, static_cast<int>(tile.a0)}, in_b[3] = {0, piece, static_cast<int>(tile.b0)};
                    send_for<A_ALONG_K, ROWS, 1>(tiles.a[turn.stage][piece], a_map, full, tile.row0, PARTS * tile.k0 + k,
                                                in_a);
                    send_for<B_ALONG_K, PART_B, CLUSTER>(tiles.b[turn.stage][piece] + place * PART_B * BK, b_map, full,
                                                         PARTS * tile.col0 + place * PART_B, PARTS * tile.k0 + k, in_b);
                }
            }
        }
    } else {
        take_registers<REGISTERS>();
        const int warp = threadIdx.x / 32, lane = thread % 32;
        for (; work.is_left(); work.next()) {
            const BlockTile& tile = work.tile;

            // mainloop
            float sums[BN / 2] = {};
            for (int k = 0; k < PARTS * tile.k; k += BK, turn.next()) {
                tiles.full[turn.stage].wait(turn.parity);
#pragma unroll
                for (int col = 0; col < BN; col += COLUMNS) {
                    float partial[COLUMNS / 2];
                    wgmma_fence();
#pragma unroll
                    for (int both = FIRST; both >= 0; --both)
#pragma unroll
                        for (int i = 0; i < PIECES; ++i) {
                            if (both - i < 0 || both - i >= PIECES) continue;
                            const T* const a = tiles.a[turn.stage][i] + warpgroup * (A_ALONG_K ? 64 * LINE : SLAB);
                            const T* const b = tiles.b[turn.stage][both - i] + col * BK;   // lines of so many columns, or slabs
#pragma unroll
                            for (int kk = 0; kk < BK; kk += DEPTH) {
                                const auto in_a = descriptor_of<SLAB * sizeof(T)>(a + (A_ALONG_K ? kk : kk * LINE));
                                const auto in_b = descriptor_of<SLAB * sizeof(T)>(b + (B_ALONG_K ? kk : kk * LINE));
                                if (kk == 0 && both == FIRST && both - i == PIECES - 1) multiply_zeroed(partial, in_a, in_b);
                                else multiply(partial, in_a, in_b);
                            }
                        }
                    wgmma_commit();
                    wgmma_wait<0>(partial);
                    if (col + COLUMNS == BN && lane < CLUSTER) tiles.empty[turn.stage].arrive_in(lane);
#pragma unroll
                    for (int i = 0; i < COLUMNS / 2; ++i) sums[col / 2 + i] = add(sums[col / 2 + i], partial[i]);
                }
            }

            // epilogue: rows and columns get back the powers of two that they were divided by
            const auto c_tile = result_tile<Number>(c, p, tile, ROWS, BN / PARTS);   // (ROWS, BN / PARTS)
            const int* const of_rows = p.of_a->exponent + tile.a0 * p.m + tile.row0;
            const int* const of_cols = p.of_b->exponent + tile.b0 * p.n + tile.col0;
            ColumnExponents<BN / 8> exponents;
            exponents.read(of_cols, 0, c_tile.cols, lane);
            write_scaled(c_tile, warp * 16 + lane / 4, 0, sums, of_rows, exponents, lane);
        }
    }
    leave_together();
}
