// tiledmm_split_float32_f16_f16_f16_f32x3_256x256x64_nn
// Rendered by tiledmm 0.1.0 from split_float32.cu.j2: bm=256 bn=256 bk=64 tm=2 tn=64 pad=0 stages=2 unroll=64 min_blocks=1 wm=16 wn=256 lanes=1 triangle=0 tiles_per_block=1 cluster=2 scheme=fp16x3

#ifndef TILEDMM_SIMULATOR   // the simulator defines these functions in C++: tiledmm/simulator/build/native/ptx.h

// Writes contiguous elements, aligned to their size, with vector stores: the compiler splits its own where a kernel also writes
// single elements. Their registers are consecutive; accumulators that were so would conflict in the mainloop (register banks). So a
// zero is added that the compiler does not know: blockIdx.z, as grids are one-dimensional. (ptxas bounds %laneid >> 5.)
template <class T>
__device__ __forceinline__ void store(T* global, const T& vector) {
    constexpr int COUNT = sizeof(T) / 4;
    if constexpr (sizeof(T) % 8 != 0) {
        *global = vector;
    } else {
        const unsigned zero = blockIdx.z;
        unsigned* const to = reinterpret_cast<unsigned*>(__cvta_generic_to_global(global));
        unsigned r[COUNT];
        memcpy(r, &vector, sizeof(T));
#pragma unroll
        for (int i = 0; i < COUNT; ++i) r[i] += zero;
        if constexpr (COUNT == 2)
            asm volatile("st.global.v2.b32 [%0], { %1, %2 };" ::"l"(to), "r"(r[0]), "r"(r[1]) : "memory");
        else
#pragma unroll
            for (int i = 0; i < COUNT; i += 4)
                asm volatile("st.global.v4.b32 [%0], { %1, %2, %3, %4 };" ::"l"(to + i), "r"(r[i]), "r"(r[i + 1]), "r"(r[i + 2]),
                             "r"(r[i + 3]) : "memory");
    }
}

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

__device__ __forceinline__ float add(float x, float y) {
    float sum;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(x), "f"(y));
    return sum;
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

__device__ __forceinline__ float32 multiply_add(float32 a, float32 b, float32 sum) { return __fmaf_ieee_rn(a, b, sum); }

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

// What decompose.cu.j2 learns of an operand while it decomposes float32 numbers into limbs (operand scan). Rows are A's rows, or
// B's columns. A complex element is two numbers.
struct OperandScan {
    int near_max;   // least count of a row's numbers that lie within a factor of 2^7 of its maximum and have 14 bits or more
    int one_limb;   // 0 if a number has more bits than its first limb, or is far below its row's maximum; 1 if no number has,
                    // but some lie below 2^-5 of their row's maximum
    int least_scale;   // least exponent that a row was scaled by; scaled, its maximum lies between 2^14 and 2^15
    int exponent[1];   // of each row: its numbers are 2^exponent times the sum of their limbs
};

// A power of two as the product of two floats: the exponent may be twice as large as a float's.
struct Power {
    float first, second;

    __device__ __forceinline__ float times(float x) const {
        return multiply_add(multiply_add(x, first, -0.0f), second, -0.0f);
    }
};

__device__ __forceinline__ Power power_of_two(int exponent) {
    const int half = exponent / 2;
    return {__uint_as_float(static_cast<unsigned>(half + 127) << 23),
            __uint_as_float(static_cast<unsigned>(exponent - half + 127) << 23)};
}

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
    long long limb_a, limb_b;   // stride between successive limbs of A, and of B, in elements
    OperandScan *scan_a, *scan_b;
};

constexpr int PARTS = 1;   // real numbers of an element: 2 of a complex one

// Whether products of limbs are as accurate as float32's, and exact where float32's are. Two limbs lose 2^-23 of an element, or,
// in float16, 2^-39 of its row's maximum. That is negligible in a sum of which an eighth of the terms lie near the maximum:
// float32 rounds such a sum as often, and terms of 28 bits are not exact in float32 either. Elements of one limb each lose
// nothing. But if their magnitudes differ widely, few products of a sum are large, and a chain of FMAs rounds less often than
// tensor cores truncate: so their magnitudes must be alike, or sums must be long.
__device__ __forceinline__ bool is_decomposed(const Problem& p) {
    const long long near_max = static_cast<long long>(p.scan_a->near_max) + p.scan_b->near_max;
    const long long scale = static_cast<long long>(p.scan_a->least_scale) + p.scan_b->least_scale;
    if (scale - (64 - __clzll(PARTS * p.k)) < 2 * 15 - 127) return false;   // float32's sums may overflow
    const int alike = PARTS * p.k < 1024 ? 1 : 0;
    return near_max >= PARTS * p.k + PARTS * p.k / 8 || (p.scan_a->one_limb > alike && p.scan_b->one_limb > alike);
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
#define KERNEL tiledmm_split_float32_f16_f16_f16_f32x3_256x256x64_nn
using TA = float16;   // an element of A in memory
using TB = float16;   // an element of B in memory
using TC = float32;   // an element of C in memory
using T = float16;   // the computation type
using Sum = Accumulator<T>;   // the type that products are accumulated in
[[maybe_unused]] constexpr Order ORDER_A = Order::ROWS;
[[maybe_unused]] constexpr Order ORDER_B = Order::ROWS;
constexpr int BM = 256;   // rows of C a cluster computes
constexpr int BN = 256;   // columns of C a cluster computes
constexpr int BK = 64;   // step along K: 128 bytes, a row of a swizzled tile
constexpr int STAGES = 2;   // pipeline stages: tiles of A and B in shared memory
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
    BlockTile tile;

    __device__ __forceinline__ TileScheduler(const Problem& p, int columns)
        : p(p), columns(columns), index(blockIdx.x / BLOCKS), count(static_cast<unsigned>(tiles_to_compute(p))) {
        locate();
    }
    __device__ __forceinline__ bool has_tile() const { return index < count; }
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
        if constexpr (SHARING > 1) tma_load_multicast((1 << SHARING) - 1, part + slab * SLAB, map, barrier, at);
        else tma_load(part + slab * SLAB, map, barrier, at);
    }
}

using Output = float32;   // an element of C: PARTS real numbers
constexpr int LIMBS = 2;       // whose sum is a real number
constexpr int PRODUCTS = 3;   // of limbs in a product of two numbers: those of the smallest limbs may be left out

// The largest i + j of a product of limbs i and j that is computed. These are the smallest products, and summed first.
constexpr int FIRST = PRODUCTS == LIMBS * LIMBS ? 2 * LIMBS - 2 : LIMBS - 1;

// x * 2^exponent, rounded once. Below -252 it is 0 for every x; sums of a row's and a column's exponent stay below 254.
__device__ __forceinline__ float times_power(float x, int exponent) {
    return power_of_two(exponent < -252 ? -252 : exponent).times(x);
}

// 2^exponent for an exponent so near 0, as most are, that a product of two such powers is a float.
constexpr int NEAR = 63;
__device__ __forceinline__ bool is_near(int exponent) { return -NEAR <= exponent && exponent <= NEAR; }
__device__ __forceinline__ float near_power(int exponent) { return __uint_as_float(static_cast<unsigned>(exponent + 127) << 23); }

// A (16, 16) chunk of C, in real numbers, that the epilogue rearranges in shared memory: a lane's accumulators are two contiguous
// numbers of a row, and it writes four.
//
// Accumulators are stored one at a time: a pair would have to be in consecutive registers, for which the mainloop has too few. So
// of every 8 columns the even ones come first, and groups of four are permuted, differently from row to row: what 32 lanes store at
// once (4 columns of 8 rows), or 16 lanes read (8 columns of 4 rows), lies in 32 different banks.
struct alignas(16) StagedChunk {
    float number[16][16];

    __device__ __forceinline__ float* at(int row, int col) {
        return &number[row][(col / 8 * 8 + col % 2 * 4 + col % 8 / 2) ^ row / 2 % 4 * 4];
    }

    // Writes a lane's accumulators.
    __device__ __forceinline__ void put(const float* sums, int lane) {
#pragma unroll
        for (int i = 0; i < 8; ++i) *at(lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2) = sums[i];
    }

    // Reads four contiguous numbers of a row.
    __device__ __forceinline__ void read(float (&numbers)[4], int row, int col) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const auto pair = *reinterpret_cast<const Vector<float, 2>*>(at(row, col + e));
            numbers[e] = pair.element[0];
            numbers[e + 2] = pair.element[1];
        }
    }
};

// Writes a warp's accumulators, (ROWS, COLS) real numbers from (row0, col0) of the tile on, scaled by the exponents of rows and
// columns. Loops are rolled: unrolled, they would be most of what the compiler has to do.
template <int ROWS, int COLS>
__device__ __forceinline__ void write_scaled(const ResultTile<Output, TC>& tile, int row0, int col0, const float* sums,
                                             const int* row_exponents, const int* col_exponents, StagedChunk& staged, int lane) {
    constexpr int CHUNKS = COLS / 16, PER_STORE = 4 / PARTS;   // of a row, elements of C
    const bool vectors = tile.has_vectors(PER_STORE * sizeof(TC));
    // Exponents of all rows and columns, some in each lane: read at once, so that the warp waits for memory once.
    int row_exponents_here[ROWS / 16], col_exponents_here[(COLS + 31) / 32];
#pragma unroll
    for (int i = 0; i < ROWS / 16; ++i) {
        const int row = row0 + i * 16 + lane % 16;
        row_exponents_here[i] = row < tile.rows ? row_exponents[row] : 0;
    }
#pragma unroll
    for (int i = 0; i < (COLS + 31) / 32; ++i) {
        const int col = (col0 + i * 32 + lane) / PARTS;
        col_exponents_here[i] = col < tile.cols ? col_exponents[col] : 0;
    }
    bool all_near = true;
#pragma unroll
    for (int i = 0; i < ROWS / 16; ++i) all_near = all_near && is_near(row_exponents_here[i]);
#pragma unroll
    for (int i = 0; i < (COLS + 31) / 32; ++i) all_near = all_near && is_near(col_exponents_here[i]);
    constexpr int IN_PAIR = 2 / PARTS;
    // Usually all are near 0 and rows aligned: lanes write what they have, two contiguous numbers of a row, and never wait.
    if (__all_sync(0xffffffffu, all_near) && tile.has_vectors(IN_PAIR * sizeof(TC))) {
#pragma unroll
        for (int j = 0; j < COLS / 8; ++j) {
            const int first = j * 8 + lane % 4 * 2, col = (col0 + first) / PARTS;
            float col_power[2];
#pragma unroll
            for (int e = 0; e < 2; ++e)
                col_power[e] = near_power(__shfl_sync(0xffffffffu, col_exponents_here[j / 4], first % 32 + e));
#pragma unroll
            for (int i = 0; i < ROWS / 8; ++i) {
                const int row = row0 + i * 8 + lane / 4;
                const float row_power = near_power(__shfl_sync(0xffffffffu, row_exponents_here[i / 2], i % 2 * 8 + lane / 4));
                float scaled[2];
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    scaled[e] = multiply_add(sums[(i / 2 * COLS / 8 + j) * 4 + i % 2 * 2 + e], row_power * col_power[e], -0.0f);
                Output numbers[IN_PAIR];
                memcpy(numbers, scaled, sizeof(scaled));
                Vector<TC, IN_PAIR> pair;
#pragma unroll
                for (int e = 0; e < IN_PAIR; ++e) pair.element[e] = from_accumulator<Output, TC>(numbers[e]);
                if (row < tile.rows && col < tile.cols)
                    store(reinterpret_cast<Vector<TC, IN_PAIR>*>(tile.data + row * tile.row_stride + col), pair);
            }
        }
        return;
    }
#pragma unroll 1
    for (int chunk = 0; chunk < ROWS / 16 * CHUNKS; ++chunk) {
        int of_rows = 0, of_cols = 0;   // this chunk's exponents
#pragma unroll
        for (int i = 0; i < ROWS / 16 * CHUNKS; ++i)   // registers cannot be indexed
            if (i == chunk) {
                of_rows = row_exponents_here[i / CHUNKS], of_cols = col_exponents_here[i % CHUNKS / 2];
                staged.put(&sums[i * 8], lane);
                __syncwarp();   // the chunk is complete before anyone reads it; here, or all chunks' stores would be predicated
            }
        const int first_row = row0 + chunk / CHUNKS * 16, first_col = chunk % CHUNKS * 16 + lane % 4 * 4;
        const int col = (col0 + first_col) / PARTS;
        int col_exponent[4];
        bool near = true;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            col_exponent[e] = __shfl_sync(0xffffffffu, of_cols, first_col % 32 + e);
            near = near && is_near(col_exponent[e]);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = half * 8 + lane / 4;
            const int row_exponent = __shfl_sync(0xffffffffu, of_rows, row);
            float scaled[4];
            staged.read(scaled, row, lane % 4 * 4);
            if (__all_sync(0xffffffffu, near && is_near(row_exponent))) {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    scaled[e] = multiply_add(scaled[e], near_power(row_exponent) * near_power(col_exponent[e]), -0.0f);
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e) scaled[e] = times_power(scaled[e], row_exponent + col_exponent[e]);
            }
            Output numbers[PER_STORE];
            memcpy(numbers, scaled, sizeof(scaled));
            TC* const to = tile.data + (first_row + row) * tile.row_stride + col * tile.col_stride;
            const int left = first_row + row < tile.rows ? tile.cols - col : 0;   // columns from this one on
            if (vectors) {
                Vector<TC, PER_STORE> vector;
#pragma unroll
                for (int e = 0; e < PER_STORE; ++e) vector.element[e] = from_accumulator<Output, TC>(numbers[e]);
                if (left > 0) store(reinterpret_cast<Vector<TC, PER_STORE>*>(to), vector);
            } else {
#pragma unroll
                for (int e = 0; e < PER_STORE; ++e)
                    if (e < left) to[e * tile.col_stride] = from_accumulator<Output, TC>(numbers[e]);
            }
        }
        __syncwarp();   // everyone has read the chunk before the next overwrites it
    }
}

// split_float32: emulates float32 products on tensor cores of 16-bit floats, or of tf32.
// Computes  C = A @ B            A (M,K)  B (K,N)  C (M,N), float32 numbers decomposed into limbs (decompose.cu.j2). Complex products
//                                are real ones, A (M,2K)  B (2K,2N)  C (M,2N): BN and BK count real numbers
// Launch    persistent: one block of THREADS threads per SM; a cluster computes one (BM, BN) tile of C at a time
// Shared    STAGES * BK * (ROWS + BN) * LIMBS * sizeof(T) and chunks of C, dynamic          Barriers  2 per stage
// Requires  compute capability 9.0; A's and B's limbs as tensor maps, K-major if tf32; batch strides that count matrices
// Source    Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores" (2022); CUTLASS, "Warp specialization"
//
// The pipeline is wgmma's. Tensor cores truncate where they add: over a long sum that is a bias, larger than float32's rounding
// errors. So they accumulate BK steps of k from zero, the smallest products first, and FP32 additions, which round, promote the
// partial sum to the accumulator. They do so for at most 144 columns at a time, for lack of registers.
static_assert(sizeof(T) == 2 || (K_MAJOR_A && K_MAJOR_B), "wgmma reads MN-major tiles of 16-bit elements only");
constexpr int COLUMNS = BN < 128 ? BN : 128;   // of the tile that are accumulated at a time

struct Tiles {
    T a[STAGES][LIMBS][ROWS * BK];
    T b[STAGES][LIMBS][BN * BK];
    StagedChunk c[CONSUMERS * 4];
    Barrier full[STAGES];    // the stage's tiles have arrived
    Barrier empty[STAGES];   // the stage's tiles have been multiplied
};

// C += A @ B: 64 rows, from shared memory. A warp has 16 of the rows, a
// lane, with row = lane / 4 and quad = lane % 4, the sum of element (row + i / 2 % 2 * 8, i / 4 * 8 + 2 * quad + i % 2) in c[i].
__device__ __forceinline__ void mma(Accumulator<TA> (&c)[64], unsigned long long a, unsigned long long b) {
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
        : "l"(a), "l"(b), "n"(K_MAJOR_A ? 0 : 1), "n"(K_MAJOR_B ? 0 : 1));
}

// C = A @ B (scale_d is 0): 64 rows, from shared memory. A warp has 16 of the rows, a
// lane, with row = lane / 4 and quad = lane % 4, the sum of element (row + i / 2 % 2 * 8, i / 4 * 8 + 2 * quad + i % 2) in c[i].
__device__ __forceinline__ void mma_zero(Accumulator<TA> (&c)[64], unsigned long long a, unsigned long long b) {
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
        : "l"(a), "l"(b), "n"(K_MAJOR_A ? 0 : 1), "n"(K_MAJOR_B ? 0 : 1));
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
    TileScheduler scheduler(p, BN / PARTS);   // locates the first tile while barriers are initialised
    init_barriers(tiles.full, tiles.empty);
    griddepcontrol_launch_dependents();   // not before: the next launch may read what these write
    PipelineState state = {0, 0};
    if (warpgroup == CONSUMERS) {   // the producer
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        for (; thread == 0 && scheduler.has_tile(); scheduler.next()) {
            const BlockTile& tile = scheduler.tile;
            for (int k = 0; k < PARTS * tile.k; k += BK, state.next()) {
                Barrier& full = tiles.full[state.stage];
                tiles.empty[state.stage].wait(state.phase ^ 1);   // at first all stages are empty: this returns at once
                full.arrive_and_expect_tx(LIMBS * (ROWS + BN) * BK * sizeof(T));
                for (int limb = 0; limb < LIMBS; ++limb) {
                    const int in_a[3] = {0, limb, static_cast<int>(tile.a0)}, in_b[3] = {0, limb, static_cast<int>(tile.b0)};
                    load_tile<K_MAJOR_A, ROWS, 1>(tiles.a[state.stage][limb], a_map, full, tile.row0, PARTS * tile.k0 + k,
                                                in_a);
                    load_tile<K_MAJOR_B, PART_B, CLUSTER>(tiles.b[state.stage][limb] + rank * PART_B * BK, b_map, full,
                                                         PARTS * tile.col0 + rank * PART_B, PARTS * tile.k0 + k, in_b);
                }
            }
        }
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        const int warp = threadIdx.x / 32, lane = thread % 32;
        const SharedMatrix<SLAB * sizeof(T)> a_matrix(tiles.a[0][0] + warpgroup * (K_MAJOR_A ? 64 * SWIZZLE_SPAN : SLAB));
        const SharedMatrix<SLAB * sizeof(T)> b_matrix(tiles.b[0][0]);
        for (; scheduler.has_tile(); scheduler.next()) {
            const BlockTile& tile = scheduler.tile;

            // mainloop
            const int steps = static_cast<int>(PARTS * tile.k);
            float sums[BN / 2] = {};
            for (int k = 0; k < steps; k += BK, state.next()) {
                tiles.full[state.stage].wait(state.phase);
                const auto a_stage = a_matrix.at(state.stage * sizeof(tiles.a[0])), b_stage = b_matrix.at(state.stage * sizeof(tiles.b[0]));
#pragma unroll
                for (int col = 0; col < BN; col += COLUMNS) {
                    float partial[COLUMNS / 2];
                    wgmma_fence();
#pragma unroll
                    for (int both = FIRST; both >= 0; --both)
#pragma unroll
                        for (int i = 0; i < LIMBS; ++i) {
                            if (both - i < 0 || both - i >= LIMBS) continue;
                            const auto a = a_stage.at(i * sizeof(tiles.a[0][0]));
                            const auto b = b_stage.at((both - i) * sizeof(tiles.b[0][0]) + col * BK * sizeof(T));   // rows of a K-major tile, or slabs
#pragma unroll
                            for (int kk = 0; kk < BK; kk += DEPTH) {
                                const auto in_a = a.at(kk * (K_MAJOR_A ? sizeof(T) : SWIZZLE_BYTES)).descriptor();
                                const auto in_b = b.at(kk * (K_MAJOR_B ? sizeof(T) : SWIZZLE_BYTES)).descriptor();
                                if (kk == 0 && both == FIRST && both - i == LIMBS - 1) mma_zero(partial, in_a, in_b);
                                else mma(partial, in_a, in_b);
                            }
                        }
                    wgmma_commit();
                    wgmma_wait<0>(partial);
                    if (col + COLUMNS == BN && lane < CLUSTER) tiles.empty[state.stage].arrive_cluster(lane);
#pragma unroll
                    for (int i = 0; i < COLUMNS / 2; ++i) sums[col / 2 + i] = add(sums[col / 2 + i], partial[i]);
                }
            }

            // epilogue: undoes the scaling of A's rows and B's columns
            const auto c_tile = result_tile<Output>(c, p, tile, ROWS, BN / PARTS);   // (ROWS, BN / PARTS)
            const int* const row_exponents = p.scan_a->exponent + tile.a0 * p.m + tile.row0;
            const int* const col_exponents = p.scan_b->exponent + tile.b0 * p.n + tile.col0;
            // What depends on this lane would be computed before the mainloop, and kept in registers, if a shuffle did not return it.
            const int same_lane = __shfl_sync(0xffffffffu, lane, lane);
            write_scaled<16, BN>(c_tile, warp * 16, 0, sums, row_exponents, col_exponents, tiles.c[warp], same_lane);
        }
    }
    cluster_sync();   // no block exits while others of the cluster access its shared memory
}
