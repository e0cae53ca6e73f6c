// tiledmm_wgmma_f16_256x256x64_nn
// Rendered by tiledmm 0.1.0 from wgmma.cu.j2: bm=256 bn=256 bk=64 tm=2 tn=64 pad=0 stages=3 unroll=64 min_blocks=1 wm=16 wn=256 lanes=1 triangle=0 tiles_per_block=1 cluster=2

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
};

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
__device__ __forceinline__ long long tiles_to_compute(const Problem& p) { return p.tiles; }

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

// Copies a row from shared to global memory: a multiple of 16 bytes, to a multiple of 16. Lanes send one after the other.
__device__ __forceinline__ void send_row(void* global, const void* shared, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
}

// What this thread sent since the last call is a group.
__device__ __forceinline__ void commit_rows() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all that this thread sent was read from shared memory.
__device__ __forceinline__ void wait_for_rows() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// What this thread wrote to shared memory is there for the copy engine, once threads have met.
__device__ __forceinline__ void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

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
#define KERNEL tiledmm_wgmma_f16_256x256x64_nn
using TA = float16;   // an element of A in memory
using TB = float16;   // an element of B in memory
using TC = float16;   // an element of C in memory
using T = float16;   // what elements are converted to, and multiplied as
using Sum = Accumulator<T>;   // what their products are summed in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 256;   // rows of C a cluster computes
constexpr int BN = 256;   // columns of C a cluster computes
constexpr int BK = 64;   // step along K: a line of 128 bytes
constexpr int STAGES = 3;   // tiles of A and of B in shared memory: one is multiplied while the others are on their way
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
    __device__ __forceinline__ bool is_last() const { return number + gridDim.x / CLUSTER >= count; }
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

// wgmma: Hopper's tensor cores. One warpgroup sends for tiles, the others multiply them, each at its own pace.
// Blocks of a cluster compute tiles of C below each other: each sends for a part of their tile of B, for all of them.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N), 16-bit floats and tf32 summed in float32, or 8-bit integers
// Launch    as many blocks of THREADS threads as there are SMs: a cluster computes one (BM, BN) tile of C after the other
// Shared    STAGES * BK * (ROWS + BN) * sizeof(T) and rows of C, dynamic          Barriers  two a stage
// Requires  compute capability 9.0; A and B as tensor maps: rows or columns 16-byte aligned
// Source    PTX ISA; CUTLASS, "Efficient GEMM in CUDA", "Warp specialization"
//
// Tensor cores transpose 16-bit elements on the way. Others have to lie along k in shared memory: bytes do, and so does B of tf32.
// Its A comes by registers where it does not. The copy engine rounds float32 to tf32.

constexpr int PASSES = sizeof(TC) > 2 ? sizeof(TC) / 2 : 1, PART = BN / PASSES;   // a row of C leaves in parts of at most 2 * BN bytes
struct alignas(sizeof(TC) < 16 ? 2 * sizeof(TC) : 16) Pair {
    TC left, right;
};
struct alignas(16) Row {
    Pair pair[PART / 2 + 4];   // 4 more: 8 rows, or 4 of wider elements, lie in 32 different banks
};

struct Tiles {
    T a[STAGES][ROWS * BK];
    T b[STAGES][BN * BK];
    Row c[CONSUMERS * 4][16];
    Barrier full[STAGES];    // its tiles are there
    Barrier empty[STAGES];   // they were multiplied
};

// C += A @ B for 64 rows, from shared memory. A warp has 16 of the rows, with row = lane / 4 and
// quad = lane % 4 of element (row + i / 2 % 2 * 8, i / 4 * 8 + 2 * quad + i % 2) in c[i].
__device__ __forceinline__ void multiply(Accumulator<TA> (&c)[128], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 { "
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, "
        "%72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, "
        "%88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, "
        "%104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, "
        "%120, %121, %122, %123, %124, %125, %126, %127"
        " }, %128, %129, 1"
        ", 1, 1, %130, %131;"
        :
        "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
        "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
        "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
        "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
        "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
        "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]),
        "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]), "+f"(c[71]),
        "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]), "+f"(c[78]), "+f"(c[79]),
        "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]), "+f"(c[85]), "+f"(c[86]), "+f"(c[87]),
        "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]), "+f"(c[92]), "+f"(c[93]), "+f"(c[94]), "+f"(c[95]),
        "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), "+f"(c[103]),
        "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), "+f"(c[111]),
        "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), "+f"(c[119]),
        "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]), "+f"(c[127])
        : "l"(a), "l"(b), "n"(A_ALONG_K ? 0 : 1), "n"(B_ALONG_K ? 0 : 1));
}

__device__ __forceinline__ int row_of(int warp, int row) { return warp * 16 + row; }

// A product's place in the batch, as an operand's map has it: 0 where it is broadcast.
__device__ __forceinline__ void in_map(int (&at)[3], const Strides& strides, const Place& place) {
#pragma unroll
    for (int i = 0; i < 3; ++i) at[i] = strides.batch[i] ? static_cast<int>(place.at[i]) : 0;
}

// A row of C on its way out.
struct Sending {
    TC* to;
    const Row* from;
    int bytes;

    __device__ __forceinline__ void send() {   // unless it has been sent
        if (bytes > 0) {
            send_row(to, from, bytes);
            commit_rows();
        }
        bytes = 0;
    }
};

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    KERNEL(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, TC* __restrict__ c,
           const __grid_constant__ Problem p) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(memory);
    const int warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const int place = blockIdx.x % CLUSTER;   // of this block in its cluster
    Work work(p, BN);   // the first tile is found while barriers are initialised
    begin_stages(tiles.full, tiles.empty);
    Turn turn = {0, 0};
    if (warpgroup == CONSUMERS) {
        give_registers<OTHERS>();
        for (; thread == 0 && work.is_left(); work.next()) {
            const BlockTile& tile = work.tile;
            int in_a[3], in_b[3];
            in_map(in_a, p.a, tile.place);
            in_map(in_b, p.b, tile.place);
            for (int k = 0; k < tile.k; k += BK, turn.next()) {
                Barrier& full = tiles.full[turn.stage];
                tiles.empty[turn.stage].wait(turn.parity ^ 1);   // the first time round it is
                full.arrive_and_expect((ROWS + BN) * BK * sizeof(T));
                send_for<A_ALONG_K, ROWS, 1>(tiles.a[turn.stage], a_map, full, tile.row0, tile.k0 + k, in_a);
                send_for<B_ALONG_K, PART_B, CLUSTER>(tiles.b[turn.stage] + place * PART_B * BK, b_map, full, tile.col0 + place * PART_B,
                                                     tile.k0 + k, in_b);
            }
        }
    } else {
        take_registers<REGISTERS>();
        const int warp = threadIdx.x / 32, lane = thread % 32;
        Sending row = {};   // that this lane has yet to send
        for (; work.is_left(); work.next()) {
            const BlockTile& tile = work.tile;

            // mainloop
            Sum sums[BN / 2] = {};
            int last = -1;   // the stage that is multiplied while the next one is started
            for (int k = 0; k < tile.k; k += BK, turn.next()) {
                tiles.full[turn.stage].wait(turn.parity);
                const T* const b = tiles.b[turn.stage];
                const T* const a = tiles.a[turn.stage] + warpgroup * (64 * BK);
                wgmma_fence();
#pragma unroll
                for (int kk = 0; kk < BK; kk += DEPTH)
                    multiply(sums, descriptor_of<SLAB * sizeof(T)>(a + (A_ALONG_K ? kk : kk * LINE)),
                             descriptor_of<SLAB * sizeof(T)>(b + (B_ALONG_K ? kk : kk * LINE)));
                wgmma_commit();
                if (k / BK == lane) row.send();   // of the last tile: one a step, or copies would wait behind all at once
                wgmma_wait<1>(sums);
                if (last >= 0 && lane < CLUSTER) tiles.empty[last].arrive_in(lane);
                last = turn.stage;
            }
            wgmma_wait<0>(sums);
            if (last >= 0 && lane < CLUSTER) tiles.empty[last].arrive_in(lane);
            // epilogue: a warp's 16 rows of C gather in shared memory, and leave from there while the next tile is multiplied
            const auto c_tile = result_tile<T>(c, p, tile, ROWS, BN);   // (ROWS, BN)
            row.send();
            if (c_tile.has_aligned_rows(16) && c_tile.cols * sizeof(TC) % 16 == 0) {
                Row* const rows = tiles.c[warp];
#pragma unroll
                for (int pass = 0; pass < PASSES; ++pass) {
                    wait_for_rows();
                    __syncwarp();   // the last rows have left
#pragma unroll
                    for (int j = 0; j < PART / 8; ++j)
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            const Sum* const pair = &sums[(pass * PART / 8 + j) * 4 + half * 2];
                            rows[lane / 4 + half * 8].pair[j * 4 + lane % 4] = {from_accumulator<T, TC>(pair[0]),
                                                                               from_accumulator<T, TC>(pair[1])};
                        }
                    fence_shared();
                    __syncwarp();   // these rows are complete
                    const int width = c_tile.cols - pass * PART < PART ? c_tile.cols - pass * PART : PART;
                    TC* const to = c_tile.data + pass * PART;
                    if (work.is_last()) {   // nothing is multiplied meanwhile, and the warp itself is done sooner
                        constexpr int CHUNK = 16 / sizeof(TC), CHUNKS = PART / CHUNK;   // of a row
                        constexpr int LANES = CHUNKS & -CHUNKS;   // that share it: a power of two of them
#pragma unroll
                        for (int first = 0; first < CHUNKS; first += LANES) {
                            const int col = (first + lane % LANES) * CHUNK;
#pragma unroll sizeof(TC) < 16 ? 16 : 8   // of complex128, all laid out would not fit in registers
                            for (int line = lane / LANES; line < 16; line += 32 / LANES) {
                                const int i = row_of(warp, line);
                                if (i < c_tile.rows && col < width)
                                    *reinterpret_cast<int4*>(to + i * c_tile.row_stride + col) =
                                        *reinterpret_cast<const int4*>(reinterpret_cast<const TC*>(&rows[line]) + col);
                            }
                        }
                    } else {
                        const int i = row_of(warp, lane);
                        if (lane < 16 && i < c_tile.rows && width > 0)
                            row = {to + i * c_tile.row_stride, &rows[lane], width * static_cast<int>(sizeof(TC))};
                        if (pass + 1 < PASSES) row.send();
                    }
                }
            } else {
#pragma unroll
                for (int j = 0; j < BN / 8; ++j)
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        c_tile.template write_row<2>(row_of(warp, lane / 4 + half * 8), j * 8 + lane % 4 * 2, &sums[j * 4 + half * 2]);
            }
        }
        row.send();
        wait_for_rows();   // shared memory is theirs until then
    }
    leave_together();
}
