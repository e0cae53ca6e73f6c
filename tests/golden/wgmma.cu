// tiledmm_wgmma_f16_128x256x64_nn
// Rendered by tiledmm 0.1.0 from wgmma.cu.j2: bm=128 bn=256 bk=64 tm=2 tn=64 pad=0 stages=4 unroll=64 min_blocks=1 wm=16 wn=256 lanes=1 triangle=0 tiles_per_block=1 cluster=1

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

// The type that products of two elements are accumulated in (for decltype; never defined).
__device__ float32 sum_type(float16);    // C is rounded once, at the end
__device__ float32 sum_type(float32);
template <class T>
using Accumulator = decltype(sum_type(T{}));

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

// How many tiles the launch computes.
__device__ __forceinline__ long long tiles_to_compute(const Problem& p) { return p.tiles; }

// How many of the `size` rows or columns from `first` on lie inside `extent`; negative or 0 if none does.
__device__ __forceinline__ int inside(long long extent, long long first, int size) {
    return extent - first < size ? static_cast<int>(extent - first) : size;
}

// N contiguous elements, loaded or stored by one instruction.
template <class Element, int N>
struct alignas(N * sizeof(Element)) Vector {
    Element element[N];
};

// The tile of C that a block writes; writes outside are dropped.
template <class T, class Stored>
struct ResultTile {
    Stored* data;   // element (0, 0)
    int rows, cols;
    long long row_stride, col_stride;

    // Its `width` columns from `col` on, as many as are inside.
    __device__ __forceinline__ ResultTile columns(int col, int width) const {
        return {data + col * col_stride, rows, inside(cols, col, width), row_stride, col_stride};
    }

    // Whether rows are contiguous, begin at multiples of `bytes`, and are whole numbers of them.
    __device__ __forceinline__ bool has_vectors(int bytes) const {
        constexpr long long SIZE = sizeof(Stored);
        return col_stride == 1 && (reinterpret_cast<long long>(data) | row_stride * SIZE | cols * SIZE) % bytes == 0;
    }

    // Elements of a row before the first N that are aligned to their size in memory; 0 if rows are not contiguous.
    template <int N>
    __device__ __forceinline__ int elements_before(int row) const {
        const long long first = reinterpret_cast<long long>(data) / static_cast<int>(sizeof(Stored)) + row * row_stride;
        return col_stride == 1 ? static_cast<int>(-first & (N - 1)) : 0;
    }
};

// The block's tile of (height, width) elements of C.
template <class T, class Stored>
__device__ __forceinline__ ResultTile<T, Stored> result_tile(Stored* data, const Problem& p, const BlockTile& block,
                                                             int height, int width) {
    return {data + block.c0 + block.row0 * p.c.row + block.col0 * p.c.col, inside(p.m, block.row0, height),
            inside(p.n, block.col0, width), p.c.row, p.c.col};
}

// Hopper's asynchronous instructions (compute capability 9.0): TMA loads, mbarriers that count bytes, and warpgroup matrix
// multiply-accumulate (wgmma), which a warpgroup issues and waits for.
// Source: PTX ISA, "cp.async.bulk.tensor", "mbarrier", "Asynchronous warpgroup level matrix instructions".

constexpr int WARPGROUP = 128;       // threads that issue a wgmma together: four warps
constexpr int SWIZZLE_BYTES = 128;   // a row of a swizzled tile, whose 16-byte chunks are permuted

// A tensor map (CUtensorMap): a matrix's address, sizes and strides, encoded by the driver. TMA reads it from the kernel's
// parameters, so it is __grid_constant__.
struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};

// Starts to read a tensor map: the first TMA load would wait for it.
__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// ---- mbarriers: a phase completes when all pending arrivals and all expected bytes have arrived ----

struct Barrier {
    unsigned long long state;

    __device__ __forceinline__ void init(int arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals));
    }
    // Arrives at the same barrier of another block of the cluster. No .release.cluster: it would be a full fence every step.
    __device__ __forceinline__ void arrive_cluster(int block) {
        asm volatile(
            "{\n .reg .b32 remote;\n"
            " mapa.shared::cluster.u32 remote, %0, %1;\n"
            " mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(this)),
            "r"(block)
            : "memory");
    }
    __device__ __forceinline__ void arrive_and_expect_tx(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)), "r"(bytes)
                     : "memory");
    }
    // Waits until the phase of this parity completes: 0 for the first, 1 for the second, and so on alternately.
    __device__ __forceinline__ void wait(unsigned parity) {
        unsigned complete = 0;
        while (!complete)
            asm volatile(
                "{\n .reg .pred complete;\n"
                " mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
                " selp.u32 %0, 1, 0, complete;\n}"
                : "=r"(complete)
                : "r"(shared_address(this)), "r"(parity)
                : "memory");
    }
};

// Makes initialised barriers visible to TMA and to other blocks of the cluster.
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// ---- tiles from global to shared memory ----

// Issues a TMA load of the box at these coordinates, fastest dimension first, with zeros outside the matrix. The barrier counts
// its bytes.
__device__ __forceinline__ void tma_load(void* shared, const TensorMap& map, Barrier& barrier, const int (&at)[5]) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, { %3, %4, %5, %6, %7 }], [%2];"
        :
        : "r"(shared_address(shared)), "l"(&map), "r"(shared_address(&barrier)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
          "r"(at[3]), "r"(at[4])
        : "memory");
}

// Issues a bulk copy from shared to global memory: a multiple of 16 bytes, 16-byte aligned. Lanes issue one after the other.
__device__ __forceinline__ void bulk_store(void* global, const void* shared, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
                 "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
}

// Commits this thread's bulk copies since the last call to a group.
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all bulk copies of this thread have read shared memory.
__device__ __forceinline__ void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// A bulk store from shared memory that has not been issued yet.
struct PendingStore {
    void* to;
    const void* from;
    int bytes;

    __device__ __forceinline__ void issue() {   // unless it has been
        if (bytes > 0) {
            bulk_store(to, from, bytes);
            bulk_commit();
        }
        bytes = 0;
    }
};

// Makes this thread's writes to shared memory visible to bulk copies (async proxy) that are issued after a barrier.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- register reallocation between warpgroups: setmaxnreg ----

template <int COUNT>
__device__ __forceinline__ void setmaxnreg_dec() {   // to COUNT registers per thread
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_inc() {   // to COUNT registers per thread
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// ---- wgmma ----

// The index of this thread's warpgroup. A shuffle tells the compiler that all lanes have the same: what is computed from it, such as
// matrix descriptors, stays in uniform registers, from which wgmma reads them.
__device__ __forceinline__ int warpgroup_index() { return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / WARPGROUP, 0); }

// Orders the warpgroup's accesses to registers and shared memory before those of subsequent wgmma. Lanes may come from divergent
// code, such as loops that wait for a barrier; .sync.aligned requires a converged warp.
__device__ __forceinline__ void wgmma_fence() {
    __syncwarp();   // all lanes converge
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Commits the wgmma since the last call to a group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Keeps the compiler from moving accesses to a register of a pending wgmma across this point.
__device__ __forceinline__ void fence_register(float& value) { asm volatile("" : "+f"(value)::"memory"); }
__device__ __forceinline__ void fence_register(unsigned& value) { asm volatile("" : "+r"(value)::"memory"); }

// Waits until at most PENDING groups of wgmma are in flight. `sums`: their accumulators.
template <int PENDING, class Sum, int N>
__device__ __forceinline__ void wgmma_wait(Sum (&sums)[N]) {
    __syncwarp();   // all lanes converge
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
    if constexpr (PENDING == 0) {
#pragma unroll
        for (int i = 0; i < N; ++i) fence_register(sums[i]);
    }
}

// A tile in shared memory that wgmma reads: rows of 128 bytes, swizzled. LEADING: the leading-dimension byte offset, from a slab of
// an MN-major tile to the next; the stride-dimension byte offset is that of 8 rows.
template <int LEADING>
struct SharedMatrix {
    unsigned low;   // half of its matrix descriptor: its address and LEADING, in units of 16 bytes

    __device__ __forceinline__ explicit SharedMatrix(unsigned low) : low(low) {}
    __device__ __forceinline__ explicit SharedMatrix(const void* shared)
        : low((shared_address(shared) & 0x3ffff) >> 4 | LEADING >> 4 << 16) {}

    // What lies so many bytes further on, a multiple of 16.
    __device__ __forceinline__ SharedMatrix at(unsigned bytes) const { return SharedMatrix(low + bytes / 16); }

    __device__ __forceinline__ unsigned long long descriptor() const {
        constexpr unsigned long long STRIDE = 8 * SWIZZLE_BYTES, MODE = 1;   // 128-byte swizzling
        return low | STRIDE >> 4 << 32 | MODE << 62;
    }
};

// clang-format off
#define KERNEL tiledmm_wgmma_f16_128x256x64_nn
using TA = float16;   // an element of A in memory
using TB = float16;   // an element of B in memory
using TC = float16;   // an element of C in memory
using T = float16;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 128;   // rows of C a cluster computes
constexpr int BN = 256;   // columns of C a cluster computes
constexpr int BK = 64;   // step along K: 128 bytes, a row of a swizzled tile
constexpr int STAGES = 4;   // pipeline stages: tiles of A and B in shared memory
constexpr int CLUSTER = 1;   // blocks of a cluster that compute successive rows of C and share tiles of B
constexpr int BLOCKS = 1;   // blocks of a cluster
constexpr int ROWS = BM / CLUSTER;   // rows of C a block computes
constexpr int CONSUMERS = ROWS / 64;   // consumer warpgroups, 64 rows each; there is one producer warpgroup
constexpr int THREADS = (CONSUMERS + 1) * 128;
// clang-format on

// Tiles have the order of their matrices, in rows of 128 bytes, which TMA swizzles. A K-major tile has ROWS or BN of these. An
// MN-major tile has BK of them for every SWIZZLE_SPAN rows of A or columns of B (a slab).
constexpr bool K_MAJOR_A = ORDER_A == Order::ROWS, K_MAJOR_B = ORDER_B == Order::COLUMNS;
constexpr int SWIZZLE_SPAN = SWIZZLE_BYTES / sizeof(TA);   // elements of such a row
constexpr int SLAB = BK * SWIZZLE_SPAN;                    // elements of a slab
constexpr int LOADED_BN = K_MAJOR_B ? BN : (BN + SWIZZLE_SPAN - 1) / SWIZZLE_SPAN * SWIZZLE_SPAN;   // columns of a tile of B: whole slabs
constexpr int UNIT_B = K_MAJOR_B ? 8 : SWIZZLE_SPAN;       // columns of B that blocks do not divide: those of a swizzle pattern or a slab
constexpr int PART_B = (LOADED_BN + CLUSTER * UNIT_B - 1) / (CLUSTER * UNIT_B) * UNIT_B;   // columns that a block loads for all; the last: fewer
constexpr int DEPTH = 32 / sizeof(TA);                     // steps of k of a wgmma
constexpr int CONSUMER_REGISTERS = 224, PRODUCER_REGISTERS = 56;   // per thread
static_assert(BK == SWIZZLE_SPAN, "a step along K is a row of a swizzled tile");
static_assert(K_MAJOR_B || PART_B % SWIZZLE_SPAN == 0, "whole slabs");
static_assert(ROWS % 8 == 0 && PART_B % 8 == 0 && SLAB % (8 * SWIZZLE_SPAN) == 0, "slabs begin at multiples of 1024 bytes: a swizzle pattern");

// Starts to read both tensor maps, which nothing writes, while the block prepares.
__device__ __forceinline__ void prefetch_tensor_maps(const TensorMap& a_map, const TensorMap& b_map) {
    if (threadIdx.x != CONSUMERS * WARPGROUP) return;   // the thread that issues TMA loads
    prefetch_tensor_map(a_map);
    prefetch_tensor_map(b_map);
}

// Initialises the barriers of all stages. A stage is full when its tiles have arrived, and empty when one lane of every consumer
// warp of the cluster has arrived. A warp that has nothing else to do initialises them.
__device__ __forceinline__ void init_barriers(Barrier (&full)[STAGES], Barrier (&empty)[STAGES]) {
    if (threadIdx.x == CONSUMERS * WARPGROUP + 32) {
        for (int stage = 0; stage < STAGES; ++stage) {
            full[stage].init(1);
            empty[stage].init(CLUSTER * CONSUMERS * 4);
        }
        fence_barrier_init();
    }
    __syncthreads();   // the barriers are initialised before any thread uses them
}

// Persistent tile scheduler: a cluster computes every (gridDim.x / BLOCKS)-th tile of C, a block ROWS rows of it, or a part of its K.
struct TileScheduler {
    const Problem& p;
    int columns;      // of C in a tile
    unsigned index;   // of the tile
    unsigned count;   // tiles to compute
    BlockTile tile;

    __device__ __forceinline__ TileScheduler(const Problem& p, int columns)
        : p(p), columns(columns), index(blockIdx.x / BLOCKS), count(static_cast<unsigned>(tiles_to_compute(p))) {
        locate();
    }
    __device__ __forceinline__ bool has_tile() const { return index < count; }
    __device__ __forceinline__ bool is_last() const { return index + gridDim.x / BLOCKS >= count; }
    __device__ __forceinline__ void next() {
        index += gridDim.x / BLOCKS;
        if (has_tile()) locate();
    }
    __device__ __forceinline__ void locate() {
        tile = locate_block_in_group(p, BM, columns, index);
        tile.row0 += blockIdx.x % CLUSTER * ROWS;
    }
};

// The current stage and the parity of its barriers' phase.
struct PipelineState {
    int stage;
    unsigned phase;

    __device__ __forceinline__ void next() {
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
};

// Issues TMA loads for a part of a tile, WIDTH rows of A or columns of B from `mn` on, for SHARING blocks of the cluster: this one or
// all. The tile has only `end` of these columns. `batch`: the matrix's coordinates in the outer dimensions of its tensor map.
template <bool K_MAJOR, int WIDTH, int SHARING>
__device__ __forceinline__ void load_tile(TA* part, const TensorMap& map, Barrier& barrier, long long mn, long long k, const int (&batch)[3],
                                          int end = WIDTH) {
#pragma unroll
    for (int slab = 0; slab < (K_MAJOR ? 1 : WIDTH / SWIZZLE_SPAN); ++slab) {
        if (slab * SWIZZLE_SPAN >= end) break;
        const int row = static_cast<int>(mn) + slab * SWIZZLE_SPAN, step = static_cast<int>(k);
        const int at[5] = {K_MAJOR ? step : row, K_MAJOR ? row : step, batch[2], batch[1], batch[0]};
        tma_load(part + slab * SLAB, map, barrier, at);
    }
}

// wgmma: Hopper's tensor cores, warp-specialized: a producer warpgroup loads tiles with TMA, consumer warpgroups multiply them.
// Blocks of a cluster compute successive rows of C, and each multicasts a part of their tile of B; or they sum parts of K, and add the sums.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N), 16-bit floats and tf32 summed in float32, or 8-bit integers
// Launch    persistent: one block of THREADS threads per SM; a cluster computes one (BM, BN) tile of C at a time
// Shared    STAGES * BK * (ROWS + LOADED_BN) * sizeof(T) and rows of C, dynamic          Barriers  2 per stage
// Requires  compute capability 9.0; A and B as tensor maps: rows or columns 16-byte aligned
// Source    PTX ISA; CUTLASS, "Efficient GEMM in CUDA", "Warp specialization"
//
// wgmma reads 16-bit elements from K-major and MN-major tiles. It needs other types K-major: bytes are, and so is B of tf32. An
// MN-major A of tf32 is read through registers. TMA rounds float32 to tf32.

constexpr int OUT_N = BN * CLUSTER / BLOCKS;   // columns of the tile that a block writes
struct alignas(sizeof(TC) < 16 ? 2 * sizeof(TC) : 16) Pair {
    TC left, right;
};
// Bytes of a row of n columns. Its padding lets rows of a wavefront, except of 32-byte pairs, differ in banks.
__device__ constexpr int row_bytes(int n, int pair) { return (n / 2 + (pair > 16 ? 2 : n % 16 ? 8 : 4)) * pair; }
// Columns that the epilogue collects and writes at a time: an equal part of the tile's, at most 128; fewer if elements are wider.
__device__ constexpr int part_of(int most, int pair, int bytes = 1 << 30) {   // the largest whose rows have at most `bytes`; at least 8
    return most <= 8 ? 8 : most % 8 || OUT_N % most || row_bytes(most, pair) > bytes ? part_of(most - 1, pair, bytes) : most;
}
constexpr int COLUMNS = part_of(128, 4), ROW_BYTES = sizeof(T) > 2 ? row_bytes(COLUMNS / 2, 8) : row_bytes(COLUMNS, 4);
constexpr int SUBTILE_N = part_of(OUT_N, sizeof(Pair), ROW_BYTES), SUBTILES = OUT_N / SUBTILE_N;
struct alignas(16) Row {
    Pair pair[row_bytes(SUBTILE_N, sizeof(Pair)) / sizeof(Pair)];
};

struct Tiles {
    T a[STAGES][ROWS * BK];
    T b[STAGES][LOADED_BN * BK];
    Row c[CONSUMERS * 4][16];
    Barrier full[STAGES];    // the stage's tiles have arrived
    Barrier empty[STAGES];   // the stage's tiles have been multiplied
};

// C += A @ B: 64 rows, from shared memory. A warp has 16 of the rows, a
// lane, with row = lane / 4 and quad = lane % 4, the sum of element (row + i / 2 % 2 * 8, i / 4 * 8 + 2 * quad + i % 2) in c[i].
__device__ __forceinline__ void mma(Accumulator<TA> (&c)[128], unsigned long long a, unsigned long long b) {
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
        : "l"(a), "l"(b), "n"(K_MAJOR_A ? 0 : 1), "n"(K_MAJOR_B ? 0 : 1));
}

__device__ __forceinline__ int row_of(int warp, int row) { return warp * 16 + row; }

// A product's coordinates in the outer dimensions of an operand's tensor map: 0 in those that are broadcast.
__device__ __forceinline__ void batch_coordinates(int (&at)[3], const Strides& strides, const BatchIndex& batch) {
#pragma unroll
    for (int i = 0; i < 3; ++i) at[i] = strides.batch[i] ? static_cast<int>(batch.at[i]) : 0;
}

// Writes the 16 rows of C that a warp has collected: successive lanes write successive BYTES bytes, or elements that are wider. Rows
// that are not ALIGNED to so many: words where these begin in memory, shifted out of two, then the elements before and after these.
template <int BYTES, bool ALIGNED = true, class Part>
__device__ __forceinline__ void write_rows(const Part& part, const Row* rows, int warp, int lane) {
    constexpr int N = sizeof(TC) >= BYTES ? 1 : BYTES / sizeof(TC) < SUBTILE_N ? BYTES / sizeof(TC) : SUBTILE_N;   // elements of a chunk
    constexpr int CHUNKS = SUBTILE_N / N;                                                                           // of a row
    const auto before = [&](int i) { return ALIGNED ? 0 : min(part.template elements_before<N>(i), part.cols); };
#pragma unroll BYTES < 16 ? 4 : sizeof(TC) < 16 ? 16 : 8   // more code would be most of the kernel, or spill
    for (int chunk = lane; chunk < 16 * CHUNKS; chunk += 32) {
        const int r = chunk / CHUNKS, index = chunk % CHUNKS * N, i = row_of(warp, r), col = index + before(i);
        TC* const to = part.data + i * part.row_stride + col;
        const TC* const from = reinterpret_cast<const TC*>(&rows[r]) + index;
        if constexpr (ALIGNED) {
            if (i < part.rows && col < part.cols) *reinterpret_cast<Vector<TC, N>*>(to) = *reinterpret_cast<const Vector<TC, N>*>(from);
        } else {
            const unsigned* const words = reinterpret_cast<const unsigned*>(from);
            if (i < part.rows && col + N <= part.cols)
                *reinterpret_cast<unsigned*>(to) = __funnelshift_r(words[0], words[col != index], (col - index) * 8 * static_cast<int>(sizeof(TC)));
        }
    }
    const int i = row_of(warp, lane % 16), after = part.cols - (part.cols - before(i)) % N;
    if (!ALIGNED && i < part.rows)
        for (int col = lane < 16 ? 0 : after; col < (lane < 16 ? before(i) : part.cols); ++col)
            part.data[i * part.row_stride + col] = reinterpret_cast<const TC*>(&rows[lane % 16])[col];
}

// Writes them one element at a time, whatever the strides: successive lanes write successive rows if these are contiguous, else columns.
template <class Part>
__device__ __forceinline__ void write_elements(const Part& part, const Row* rows, int warp, int lane) {
    const bool down = part.row_stride == 1;
#pragma unroll 4
    for (int i = lane; i < 16 * SUBTILE_N; i += 32) {
        const int r = down ? i % 16 : i / SUBTILE_N, row = row_of(warp, r), col = down ? i / 16 : i % SUBTILE_N;
        if (row < part.rows && col < part.cols)
            part.data[row * part.row_stride + col * part.col_stride] = reinterpret_cast<const TC*>(&rows[r])[col];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    KERNEL(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, TC* __restrict__ c,
           const __grid_constant__ Problem p) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(memory);
    prefetch_tensor_maps(a_map, b_map);
    const int warpgroup = warpgroup_index(), thread = threadIdx.x % WARPGROUP;
    const int rank = blockIdx.x % BLOCKS;   // of this block in its cluster
    TileScheduler scheduler(p, BN);   // locates the first tile while barriers are initialised
    init_barriers(tiles.full, tiles.empty);
    griddepcontrol_wait();   // for what the launches before this one write
    griddepcontrol_launch_dependents();   // not before: the next launch may read what these write
    PipelineState state = {0, 0};
    if (warpgroup == CONSUMERS) {   // the producer
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        for (; thread == 0 && scheduler.has_tile(); scheduler.next()) {
            const BlockTile& tile = scheduler.tile;
            const BatchIndex batch = batch_index(p, tile.product);
            const int part = rank % CLUSTER * PART_B;   // of the tile of B: the columns that this block loads
            int in_a[3], in_b[3];
            batch_coordinates(in_a, p.a, batch);
            batch_coordinates(in_b, p.b, batch);
            for (int k = 0; k < tile.k; k += BK, state.next()) {
                Barrier& full = tiles.full[state.stage];
                tiles.empty[state.stage].wait(state.phase ^ 1);   // at first all stages are empty: this returns at once
                full.arrive_and_expect_tx((ROWS + LOADED_BN) * BK * sizeof(T));
                load_tile<K_MAJOR_A, ROWS, 1>(tiles.a[state.stage], a_map, full, tile.row0, tile.k0 + k, in_a);
                load_tile<K_MAJOR_B, PART_B, CLUSTER>(tiles.b[state.stage] + part * BK, b_map, full, tile.col0 + part, tile.k0 + k, in_b,
                                                     LOADED_BN % PART_B ? LOADED_BN - part : PART_B);
            }
        }
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        const int warp = threadIdx.x / 32, lane = thread % 32;
        const SharedMatrix<SLAB * sizeof(T)> a_matrix(tiles.a[0] + warpgroup * (64 * BK)), b_matrix(tiles.b[0]);
        PendingStore row = {};   // of the previous tile
        for (; scheduler.has_tile(); scheduler.next()) {
            const BlockTile& tile = scheduler.tile;
            // mainloop
            const int due = lane * min(16u, (static_cast<unsigned>(tile.k) + BK - 1) / BK) / 16;   // when to store a row: bursts delay loads
            Sum sums[BN / 2] = {};
            int last = -1;   // the stage whose wgmma are in flight while the next stage's are issued
            for (int k = 0; k < tile.k; k += BK, state.next()) {
                tiles.full[state.stage].wait(state.phase);
                const auto a_stage = a_matrix.at(state.stage * sizeof(tiles.a[0])), b_stage = b_matrix.at(state.stage * sizeof(tiles.b[0]));
                wgmma_fence();
#pragma unroll
                for (int kk = 0; kk < BK; kk += DEPTH)
                    mma(sums, a_stage.at(kk * (K_MAJOR_A ? sizeof(T) : SWIZZLE_BYTES)).descriptor(),
                              b_stage.at(kk * (K_MAJOR_B ? sizeof(T) : SWIZZLE_BYTES)).descriptor());
                wgmma_commit();
                if (k / BK == due) row.issue();
                wgmma_wait<1>(sums);
                if (last >= 0 && lane < CLUSTER) tiles.empty[last].arrive_cluster(rank - rank % CLUSTER + lane);
                last = state.stage;
            }
            wgmma_wait<0>(sums);
            if (last >= 0 && lane < CLUSTER) tiles.empty[last].arrive_cluster(rank - rank % CLUSTER + lane);
            // epilogue: a warp collects its 16 rows of C in shared memory; they are stored while the next tile is multiplied
            const auto c_tile = result_tile<T>(c, p, tile, ROWS, OUT_N);   // (ROWS, OUT_N)
            row.issue();
            const bool vectors = c_tile.has_vectors(16), words = c_tile.has_vectors(4);
            Row* const rows = tiles.c[warp];
#pragma unroll
            for (int subtile = 0; subtile < SUBTILES; ++subtile) {
                if (subtile == 0) bulk_wait_read();
                __syncwarp();   // the previous rows have been read before they are overwritten
#pragma unroll
                for (int j = 0; j < SUBTILE_N / 8; ++j)
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const Sum* const pair = &sums[(subtile * SUBTILE_N / 8 + j) * 4 + half * 2];
                        rows[lane / 4 + half * 8].pair[j * 4 + lane % 4] = {from_accumulator<T, TC>(pair[0]),
                                                                           from_accumulator<T, TC>(pair[1])};
                    }
                fence_proxy_async();
                __syncwarp();   // the rows are complete before anyone reads them
                const auto part = c_tile.columns(subtile * SUBTILE_N, SUBTILE_N);
                if (vectors && subtile + 1 == SUBTILES && !scheduler.is_last()) {
                    const int i = row_of(warp, lane);
                    if (lane < 16 && i < part.rows && part.cols > 0)
                        row = {part.data + i * part.row_stride, &rows[lane], part.cols * static_cast<int>(sizeof(TC))};
                } else if (vectors) {   // nothing to overlap with: the warp's own stores finish earlier
                    write_rows<16>(part, rows, warp, lane);
                } else if (c_tile.col_stride != 1) {
                    write_elements(part, rows, warp, lane);
                } else {   // rows that bulk stores cannot write
                    sizeof(TC) >= 4 || words ? write_rows<4>(part, rows, warp, lane) : write_rows<4, false>(part, rows, warp, lane);
                }
            }
        }
        row.issue();
        bulk_wait_read();   // shared memory must outlive the bulk stores that read it
    }
}
