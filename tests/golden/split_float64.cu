// tiledmm_split_float64_u8_u8_f64_u8x15_256x256x128_nt
// Rendered by tiledmm 0.1.0 from split_float64.cu.j2: bm=256 bn=256 bk=128 tm=2 tn=64 pad=0 stages=4 unroll=128 min_blocks=1 wm=16 wn=256 lanes=1 triangle=0 tiles_per_block=1 cluster=2 moduli=15

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

#endif

using uint8 = unsigned char;
using uint32 = unsigned int;
using float64 = double;

// The type that products of two elements are accumulated in (for decltype; never defined).
__device__ float64 sum_type(float64);
__device__ uint32 sum_type(uint8);    // wraps
__device__ uint32 sum_type(uint32);   // wraps
template <class T>
using Accumulator = decltype(sum_type(T{}));

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

// The same, multicast to the same shared address of all blocks of the cluster in the mask `blocks`; each block's barrier counts.
__device__ __forceinline__ void tma_load_multicast(int blocks, void* shared, const TensorMap& map, Barrier& barrier,
                                                   const int (&at)[5]) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, { %3, %4, %5, %6, %7 }], [%2], %8;"
        :
        : "r"(shared_address(shared)), "l"(&map), "r"(shared_address(&barrier)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
          "r"(at[3]), "r"(at[4]), "h"(static_cast<short>(blocks))
        : "memory");
}

// ---- clusters: blocks that are co-scheduled and access each other's shared memory ----

// A cluster barrier without a full fence: afterwards only barriers that were fenced are visible.
__device__ __forceinline__ void cluster_sync_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}

// A cluster barrier: all threads of all blocks of the cluster.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

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
#define KERNEL tiledmm_split_float64_u8_u8_f64_u8x15_256x256x128_nt
using TA = uint8;   // an element of A in memory
using TB = uint8;   // an element of B in memory
using TC = uint8;   // an element of C in memory
using T = float64;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::COLUMNS;
constexpr int BM = 256;   // rows of C a cluster computes
constexpr int BN = 256;   // columns of C a cluster computes
constexpr int BK = 128;   // step along K: 128 bytes, a row of a swizzled tile
constexpr int STAGES = 4;   // pipeline stages: tiles of A and B in shared memory
constexpr int CLUSTER = 2;   // blocks of a cluster that compute successive rows of C and share tiles of B
constexpr int BLOCKS = 2;   // blocks of a cluster
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
    cluster_sync_relaxed();   // the barriers are initialised before any thread uses them
}

// Persistent tile scheduler: a cluster computes every (gridDim.x / BLOCKS)-th tile of C, a block ROWS rows of it, or a part of its K.
struct TileScheduler {
    const Problem& p;
    int columns;      // of C in a tile
    unsigned index;   // of the tile
    unsigned count;   // tiles to compute
    unsigned in_plane;   // tiles of a plane: of all products modulo one modulus
    int plane;           // of the tile
    BlockTile tile;

    __device__ __forceinline__ TileScheduler(const Problem& p, int columns)
        : p(p), columns(columns), index(blockIdx.x / BLOCKS), count(static_cast<unsigned>(tiles_to_compute(p))) {
        in_plane = tiles_in_plane(p);
        locate();
    }
    __device__ __forceinline__ bool has_tile() const { return index < count; }
    __device__ __forceinline__ void next() {
        index += gridDim.x / BLOCKS;
        if (has_tile()) locate();
    }
    __device__ __forceinline__ void locate() {
        plane = static_cast<int>(index / in_plane);
        tile = locate_block_in_group(p, BM, columns, index - plane * in_plane);
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
        if constexpr (SHARING > 1) tma_load_multicast((1 << SHARING) - 1, part + slab * SLAB, map, barrier, at);
        else tma_load(part + slab * SLAB, map, barrier, at);
    }
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

// split_float64: float64 products on 8-bit tensor cores: integers modulo each of MODULI moduli (Ozaki scheme II).
// Computes  C = A @ B modulo m, for each modulus m          A (PLANES,M,K)  B (PLANES,K,N)  C (PLANES,M,N), residues
//                              (decompose_residues.cu.j2, reconstruct.cu.j2)
// Launch    persistent: one block of THREADS threads per SM; a cluster computes one (BM, BN) tile of a plane of C at a time
// Shared    STAGES * BK * (ROWS + BN), dynamic          Barriers  2 per stage
// Requires  compute capability 9.0; A's and B's residues as tensor maps; batch strides that count matrices; rows of C that begin at
//           multiples of 16, and have whole groups of 64 bytes
// Source    Ozaki, Uchino and Imamura, "Ozaki Scheme II" (2025); CUTLASS, "Warp specialization"
//
// The pipeline is wgmma's. A tile's modulus is that of its plane; the third part of complex numbers begins with the first modulus
// again. 32-bit sums are exact for LONGEST steps of k, and are reduced modulo m before more are added. Lanes write C's residues in the
// order in which they have them: reconstruct.cu.j2 knows it.
constexpr int LONGEST = 66048 / BK * BK;   // steps of k before sums may pass 2^32
static_assert(LONGEST % BK == 0 && LONGEST * 255ll * 255 + 255 < 1ll << 32, "sums of products of residues fit 32 bits");

struct Tiles {
    TA a[STAGES][ROWS * BK];
    TA b[STAGES][BN * BK];
    Barrier full[STAGES];    // the stage's tiles have arrived
    Barrier empty[STAGES];   // the stage's tiles have been multiplied
};

// C += A @ B: 64 rows, from shared memory. A warp has 16 of the rows, a
// lane, with row = lane / 4 and quad = lane % 4, the sum of element (row + i / 2 % 2 * 8, i / 4 * 8 + 2 * quad + i % 2) in c[i].
__device__ __forceinline__ void mma(Accumulator<TA> (&c)[128], unsigned long long a, unsigned long long b) {
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

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS, 1)
    KERNEL(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, TC* __restrict__ c,
           const __grid_constant__ Problem p) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(memory);
    prefetch_tensor_maps(a_map, b_map);
    const int warpgroup = warpgroup_index(), thread = threadIdx.x % WARPGROUP;
    const int rank = blockIdx.x % BLOCKS;   // of this block in its cluster
    griddepcontrol_wait();   // for what the launches before this one write: whether there are tiles to compute, too
    TileScheduler scheduler(p, BN);   // locates the first tile while barriers are initialised
    init_barriers(tiles.full, tiles.empty);
    griddepcontrol_launch_dependents();   // not before: the next launch may read what these write
    PipelineState state = {0, 0};
    if (warpgroup == CONSUMERS) {   // the producer
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        for (; thread == 0 && scheduler.has_tile(); scheduler.next()) {
            const BlockTile& tile = scheduler.tile;
            const int in_a[3] = {0, scheduler.plane, static_cast<int>(tile.a0)}, in_b[3] = {0, scheduler.plane, static_cast<int>(tile.b0)};
            for (int k = 0; k < tile.k; k += BK, state.next()) {
                Barrier& full = tiles.full[state.stage];
                tiles.empty[state.stage].wait(state.phase ^ 1);   // at first all stages are empty: this returns at once
                full.arrive_and_expect_tx((ROWS + BN) * BK);
                load_tile<K_MAJOR_A, ROWS, 1>(tiles.a[state.stage], a_map, full, tile.row0, k, in_a);
                load_tile<K_MAJOR_B, PART_B, CLUSTER>(tiles.b[state.stage] + rank * PART_B * BK, b_map, full, tile.col0 + rank * PART_B, k,
                                                     in_b);
            }
        }
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        const int warp = threadIdx.x / 32, lane = thread % 32;
        const SharedMatrix<SLAB * sizeof(TA)> a_matrix(tiles.a[0] + warpgroup * (64 * BK)), b_matrix(tiles.b[0]);
        while (scheduler.has_tile()) {
            const BlockTile tile = scheduler.tile;
            const int steps = static_cast<int>(tile.k), plane = scheduler.plane;
            const Divisor m = divisor_at(plane % MODULI);

            // mainloop
            uint32 sums[BN / 2] = {};
            for (int first = 0; first < steps; first += LONGEST) {
                const int end = steps - first < LONGEST ? steps : first + LONGEST;
                int last = -1;   // the stage whose wgmma are in flight while the next stage's are issued
                for (int k = first; k < end; k += BK, state.next()) {
                    tiles.full[state.stage].wait(state.phase);
                    const auto a = a_matrix.at(state.stage * sizeof(tiles.a[0])), b = b_matrix.at(state.stage * sizeof(tiles.b[0]));
                    wgmma_fence();
#pragma unroll
                    for (int kk = 0; kk < BK; kk += DEPTH) mma(sums, a.at(kk).descriptor(), b.at(kk).descriptor());
                    wgmma_commit();
                    wgmma_wait<1>(sums);
                    if (last >= 0 && lane < CLUSTER) tiles.empty[last].arrive_cluster(lane);
                    last = state.stage;
                }
                if (end == steps) scheduler.next();   // divides while the last products are computed
                wgmma_wait<0>(sums);
                if (last >= 0 && lane < CLUSTER) tiles.empty[last].arrive_cluster(lane);
#pragma unroll
                for (int i = 0; i < BN / 2; ++i) sums[i] = reduced(sums[i], m);
            }

            // epilogue
            const int rows = inside(p.m, tile.row0, ROWS), cols = inside(p.n, tile.col0, BN);
            TC* const to = c + plane * p.plane + tile.c0 + tile.row0 * p.pitch + tile.col0 + lane % 4 * 16;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = warp * 16 + lane / 4 + half * 8;
#pragma unroll
                for (int group = 0; group < BN / 64; ++group)
                    if (row < rows && group * 64 < cols)
                        *reinterpret_cast<LaneResidues*>(to + row * p.pitch + group * 64) = packed_residues(&sums[group * 32], half);
            }
        }
    }
    cluster_sync();   // no block exits while others of the cluster access its shared memory
}
