// tiledmm_split_integer_u8_u8_i32_i32_256x256x128_nt
// Rendered by tiledmm 0.1.0 from split_integer.cu.j2: bm=256 bn=256 bk=128 tm=2 tn=64 pad=0 stages=4 unroll=128 min_blocks=1 wm=16 wn=256 lanes=1 triangle=0 tiles_per_block=1 cluster=2

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

#endif

using int32 = int;
using uint8 = unsigned char;
using uint32 = unsigned int;

// A stored element as the number it is.
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

// What products of two elements are summed in (declared to be looked up, never called).
__device__ uint32 sum_type(uint8);    // wraps
__device__ uint32 sum_type(int32);    // wraps
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
#define KERNEL tiledmm_split_integer_u8_u8_i32_i32_256x256x128_nt
using TA = uint8;   // an element of A in memory
using TB = uint8;   // an element of B in memory
using TC = int32;   // an element of C in memory
using T = int32;   // what elements are converted to, and multiplied as
using Sum = Accumulator<T>;   // what their products are summed in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::COLUMNS;
constexpr int BM = 256;   // rows of C a cluster computes
constexpr int BN = 256;   // columns of C a cluster computes
constexpr int BK = 128;   // step along K: a line of 128 bytes
constexpr int STAGES = 4;   // tiles of A and of B in shared memory: one is multiplied while the others are on their way
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

constexpr int BYTES = 4;   // of an element

// split_integer: products of integers of two bytes and more from tensor cores of bytes, exact.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N), integers as sums of bytes (split_bytes.cu.j2)
// Launch    as many blocks of THREADS threads as there are SMs: a cluster computes one (BM, BN) tile of C after the other
// Shared    STAGES * BK * (ROWS + BN), dynamic          Barriers  two a stage
// Requires  compute capability 9.0; A's and B's bytes as tensor maps, and strides that count matrices of their batches
// Source    long multiplication; Horner's scheme
//
// Modulo 256^BYTES a product needs the pairs of bytes whose places add up to less than BYTES: of 4 bytes 10, of 8 bytes 36. Those of
// the highest places are summed first. Then sums move one place up, and the pairs of the next place are added. Tensor cores' sums of
// bytes wrap modulo 2^32, as integers of 4 bytes do. Those of 8 bytes get them added before they wrap.
constexpr bool WRAPS = BYTES > 4;
constexpr int LONGEST = WRAPS ? 8192 : 1 << 30;   // steps of k until then: BYTES * 8192 * 255^2 < 2^32
static_assert(!WRAPS || BYTES * 65025ll * LONGEST <= 1ll << 32, "a sum of so many products fits");

struct Tiles {
    TA a[STAGES][ROWS * BK];
    TA b[STAGES][BN * BK];
    Barrier full[STAGES];    // its tiles are there
    Barrier empty[STAGES];   // they were multiplied
};

// C += A @ B for 64 rows, from shared memory. A warp has 16 of the rows, with row = lane / 4 and
// quad = lane % 4 of element (row + i / 2 % 2 * 8, i / 4 * 8 + 2 * quad + i % 2) in c[i].
__device__ __forceinline__ void multiply(Accumulator<TA> (&c)[128], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.u8 { "
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
        ";"
        :
        "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7]),
        "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]), "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15]),
        "+r"(c[16]), "+r"(c[17]), "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), "+r"(c[21]), "+r"(c[22]), "+r"(c[23]),
        "+r"(c[24]), "+r"(c[25]), "+r"(c[26]), "+r"(c[27]), "+r"(c[28]), "+r"(c[29]), "+r"(c[30]), "+r"(c[31]),
        "+r"(c[32]), "+r"(c[33]), "+r"(c[34]), "+r"(c[35]), "+r"(c[36]), "+r"(c[37]), "+r"(c[38]), "+r"(c[39]),
        "+r"(c[40]), "+r"(c[41]), "+r"(c[42]), "+r"(c[43]), "+r"(c[44]), "+r"(c[45]), "+r"(c[46]), "+r"(c[47]),
        "+r"(c[48]), "+r"(c[49]), "+r"(c[50]), "+r"(c[51]), "+r"(c[52]), "+r"(c[53]), "+r"(c[54]), "+r"(c[55]),
        "+r"(c[56]), "+r"(c[57]), "+r"(c[58]), "+r"(c[59]), "+r"(c[60]), "+r"(c[61]), "+r"(c[62]), "+r"(c[63]),
        "+r"(c[64]), "+r"(c[65]), "+r"(c[66]), "+r"(c[67]), "+r"(c[68]), "+r"(c[69]), "+r"(c[70]), "+r"(c[71]),
        "+r"(c[72]), "+r"(c[73]), "+r"(c[74]), "+r"(c[75]), "+r"(c[76]), "+r"(c[77]), "+r"(c[78]), "+r"(c[79]),
        "+r"(c[80]), "+r"(c[81]), "+r"(c[82]), "+r"(c[83]), "+r"(c[84]), "+r"(c[85]), "+r"(c[86]), "+r"(c[87]),
        "+r"(c[88]), "+r"(c[89]), "+r"(c[90]), "+r"(c[91]), "+r"(c[92]), "+r"(c[93]), "+r"(c[94]), "+r"(c[95]),
        "+r"(c[96]), "+r"(c[97]), "+r"(c[98]), "+r"(c[99]), "+r"(c[100]), "+r"(c[101]), "+r"(c[102]), "+r"(c[103]),
        "+r"(c[104]), "+r"(c[105]), "+r"(c[106]), "+r"(c[107]), "+r"(c[108]), "+r"(c[109]), "+r"(c[110]), "+r"(c[111]),
        "+r"(c[112]), "+r"(c[113]), "+r"(c[114]), "+r"(c[115]), "+r"(c[116]), "+r"(c[117]), "+r"(c[118]), "+r"(c[119]),
        "+r"(c[120]), "+r"(c[121]), "+r"(c[122]), "+r"(c[123]), "+r"(c[124]), "+r"(c[125]), "+r"(c[126]), "+r"(c[127])
        : "l"(a), "l"(b));
}

// Calls step(k, byte of A, byte of B) for every step of k and every pair of bytes, and moved(), added() where sums are to move one
// place up, and where they have to be added. Who sends and who multiplies so do the same in the same order.
template <class Step, class Moved, class Added>
__device__ __forceinline__ void for_all_pairs(int k, Step step, Moved moved, Added added) {
    for (int place = BYTES - 1; place >= 0; --place) {
        for (int first = 0; first < k; first += LONGEST) {
            const int last = k - first < LONGEST ? k : first + LONGEST;
            for (int of_a = 0; of_a <= place; ++of_a)
                for (int at = first; at < last; at += BK) step(at, of_a, place - of_a);
            added();
        }
        if (place > 0) moved();
    }
}

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
            const auto send = [&](int k, int of_a, int of_b) {
                Barrier& full = tiles.full[turn.stage];
                tiles.empty[turn.stage].wait(turn.parity ^ 1);   // the first time round it is
                full.arrive_and_expect((ROWS + BN) * BK);
                const int in_a[3] = {0, of_a, static_cast<int>(tile.a0)}, in_b[3] = {0, of_b, static_cast<int>(tile.b0)};
                send_for<A_ALONG_K, ROWS, 1>(tiles.a[turn.stage], a_map, full, tile.row0, tile.k0 + k, in_a);
                send_for<B_ALONG_K, PART_B, CLUSTER>(tiles.b[turn.stage] + place * PART_B * BK, b_map, full, tile.col0 + place * PART_B,
                                                     tile.k0 + k, in_b);
                turn.next();
            };
            for_all_pairs(static_cast<int>(tile.k), send, [] {}, [] {});
        }
    } else {
        take_registers<REGISTERS>();
        const int warp = threadIdx.x / 32, lane = thread % 32;
        for (; work.is_left(); work.next()) {
            const BlockTile& tile = work.tile;

            // mainloop
            Sum sums[BN / 2] = {};
            auto& partial = sums;
            int last = -1;   // the stage that is multiplied while the next one is started
            const auto multiply_stage = [&](int, int, int) {
                tiles.full[turn.stage].wait(turn.parity);
                const TA* const a = tiles.a[turn.stage] + warpgroup * (64 * BK);
                const TA* const b = tiles.b[turn.stage];
                wgmma_fence();
#pragma unroll
                for (int kk = 0; kk < BK; kk += DEPTH)
                    multiply(partial, descriptor_of<SLAB * sizeof(TA)>(a + kk), descriptor_of<SLAB * sizeof(TA)>(b + kk));
                wgmma_commit();
                wgmma_wait<1>(partial);
                if (last >= 0 && lane < CLUSTER) tiles.empty[last].arrive_in(lane);
                last = turn.stage;
                turn.next();
            };
            const auto wait = [&] {
                wgmma_wait<0>(partial);
                if (last >= 0 && lane < CLUSTER) tiles.empty[last].arrive_in(lane);
                last = -1;
            };
            const auto move = [&] {
                wgmma_wait<0>(partial);   // as it was before: so the compiler knows
#pragma unroll
                for (int i = 0; i < BN / 2; ++i) sums[i] <<= 8;
            };
            const auto add_up = [&] {
                wait();
            };
            for_all_pairs(static_cast<int>(tile.k), multiply_stage, move, add_up);

            // epilogue
            const auto c_tile = result_tile<T>(c, p, tile, ROWS, BN);   // (ROWS, BN)
#pragma unroll
            for (int j = 0; j < BN / 8; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    c_tile.template write_row<2>(warp * 16 + lane / 4 + half * 8, j * 8 + lane % 4 * 2, &sums[j * 4 + half * 2]);
        }
    }
    leave_together();
}
