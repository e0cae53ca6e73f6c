// Hopper's asynchronous instructions (sm_90a) as small functions, one instruction each, for the kernels of this folder.
// Addresses of shared memory are 32-bit numbers in PTX; smem() makes them from pointers.
// Source: PTX ISA, "mbarrier", "cp.async.bulk", "cp.async.bulk.tensor", "wgmma", "Matrix descriptor format".
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;
typedef u64 mbarrier;   // opaque: PTX defines its 64 bits

// What cuTensorMapEncodeTiled writes. A kernel receives it by value, as a __grid_constant__ parameter, and passes its
// address on.
struct alignas(64) TensorMap {
    u64 opaque[16];
};

__device__ __forceinline__ u32 smem(const void* shared) { return (u32)__cvta_generic_to_shared(shared); }

// ---- mbarriers of this block ----

__device__ __forceinline__ void mbarrier_init(mbarrier* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(barrier)), "r"(arrivals) : "memory");
}

// Ends the life of a barrier, so that its memory can hold something else.
__device__ __forceinline__ void mbarrier_inval(mbarrier* barrier) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(smem(barrier)) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(mbarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(barrier)) : "memory");
}

// Arrives, and announces that this many bytes will be copied in the current phase.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(mbarrier* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(barrier)), "r"(bytes) : "memory");
}

// Waits until the phase of this parity has completed: 0 for the first phase, 1 for the second, 0 for the third, and
// so on.
__device__ __forceinline__ void mbarrier_wait(mbarrier* barrier, int parity) {
    u32 done;
    do {
        asm volatile(
            "{\n"
            " .reg .pred p;\n"
            " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
            " selp.u32 %0, 1, 0, p;\n"
            "}"
            : "=r"(done)
            : "r"(smem(barrier)), "r"(parity)
            : "memory");
    } while (!done);
}

// ---- mbarriers across a cluster ----

// The address, in the cluster's shared memory, of what lies at the same place in another block.
__device__ __forceinline__ u32 mapa(const void* shared, int rank) {
    u32 address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(smem(shared)), "r"(rank));
    return address;
}

// Arrives at a barrier of another block; what this thread has written before is visible to those who wait there
// (release).
__device__ __forceinline__ void mbarrier_arrive_remote(u32 barrier) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits as mbarrier_wait() does, and then sees what other blocks of the cluster wrote before they arrived (acquire).
__device__ __forceinline__ void mbarrier_wait_cluster(mbarrier* barrier, int parity) {
    u32 done;
    do {
        asm volatile(
            "{\n"
            " .reg .pred p;\n"
            " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
            " selp.u32 %0, 1, 0, p;\n"
            "}"
            : "=r"(done)
            : "r"(smem(barrier)), "r"(parity)
            : "memory");
    } while (!done);
}

// ---- fences ----

// Initialised barriers become visible to the async proxy (TMA), and to the cluster after its barrier.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// This thread's ordinary accesses to shared memory come before those of TMA and wgmma that follow, or follow a barrier.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- clusters ----

__device__ __forceinline__ int cluster_ctarank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
}

__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// ---- bulk copies: 16-byte aligned, a multiple of 16 bytes ----

__device__ __forceinline__ void bulk_load(void* shared, const void* global, int bytes, mbarrier* barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem(shared)),
        "l"(global), "r"(bytes), "r"(smem(barrier))
        : "memory");
}

__device__ __forceinline__ void bulk_store(void* global, const void* shared, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(smem(shared)),
                 "r"(bytes)
                 : "memory");
}

// This thread's bulk stores since the last commit form a group.
__device__ __forceinline__ void bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most PENDING of this thread's groups have still to read shared memory, which then may be overwritten.
template <int PENDING>
__device__ __forceinline__ void bulk_wait_group_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// ---- TMA: boxes of a tensor map, at coordinates with the fastest dimension first ----

__device__ __forceinline__ void tma_load_1d(void* shared, const TensorMap& map, mbarrier* barrier, int x) {
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::
            "r"(smem(shared)),
        "l"(&map), "r"(x), "r"(smem(barrier))
        : "memory");
}

__device__ __forceinline__ void tma_load_2d(void* shared, const TensorMap& map, mbarrier* barrier, int x, int y) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
        "[%4];" ::"r"(smem(shared)),
        "l"(&map), "r"(x), "r"(y), "r"(smem(barrier))
        : "memory");
}

// The same to all blocks of the cluster in `mask`: same shared addresses, and each block's own barrier counts the
// bytes.
__device__ __forceinline__ void tma_load_2d_multicast(void* shared, const TensorMap& map, mbarrier* barrier, int x,
                                                      int y, int mask) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(smem(shared)),
        "l"(&map), "r"(x), "r"(y), "r"(smem(barrier)), "h"((short)mask)
        : "memory");
}

__device__ __forceinline__ void tma_store_1d(const TensorMap& map, const void* shared, int x) {
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%1}], [%2];" ::"l"(&map), "r"(x),
                 "r"(smem(shared))
                 : "memory");
}

__device__ __forceinline__ void tma_store_2d(const TensorMap& map, const void* shared, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x),
                 "r"(y), "r"(smem(shared))
                 : "memory");
}

// ---- wgmma ----

// Two numbers rounded to float16, `low` in the lower half.
__device__ __forceinline__ u32 pack_half2(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

enum Swizzle { NO_SWIZZLE = 0, SWIZZLE_128 = 1, SWIZZLE_64 = 2, SWIZZLE_32 = 3 };

// A matrix descriptor: the address of a tile, its leading and stride byte offsets, and how its 16-byte chunks are
// permuted.
__device__ __forceinline__ u64 descriptor(const void* tile, int leading, int stride, Swizzle swizzle) {
    return (u64)((smem(tile) & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 |
           (u64)swizzle << 62;
}

// Where byte `offset` of a tile in rows of ROW bytes (32, 64 or 128) lies if TMA or wgmma swizzles it: address bits 7
// and up are added (xor) to the number of the 16-byte chunk in its row. The tile begins at a multiple of 1024 bytes.
template <int ROW>
__device__ __forceinline__ int swizzled(int offset) {
    return offset ^ (offset >> 7 & (ROW / 16 - 1)) << 4;
}

// Orders accesses to registers and shared memory before the wgmma that follow. All lanes converge first, as .aligned
// requires.
__device__ __forceinline__ void wgmma_fence() {
    __syncwarp();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most PENDING groups are in flight.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// The same. `sums` are the registers of groups that have ended: the compiler may not read or move them earlier.
template <int PENDING, class Sum, int N>
__device__ __forceinline__ void wgmma_wait_group(Sum (&sums)[N]) {
    wgmma_wait_group<PENDING>();
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if constexpr (sizeof(Sum) == 4 && Sum(1) / 2 != 0)
            asm volatile("" : "+f"(sums[i])::"memory");
        else
            asm volatile("" : "+r"(sums[i])::"memory");
    }
}

// Row and column of a warpgroup's tile of 64 rows whose sum a thread holds in d[i].
__device__ __forceinline__ int wgmma_row(int thread, int i) {
    return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
__device__ __forceinline__ int wgmma_col(int thread, int i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }

// D = A @ B + D (without D if not `add`) of float16: 64 rows, 64 columns, 16 steps of k; D in float32. TRANS: 1 if a
// tile is MN-major.
template <int TRANS_A = 0, int TRANS_B = 0>
__device__ __forceinline__ void wgmma_m64n64k16(float (&d)[32], u64 a, u64 b, int add = 1) {
    asm volatile(
        "{\n"
        " .reg .pred p;\n"
        " setp.ne.b32 p, %34, 0;\n"
        " wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31},"
        " %32, %33, p, 1, 1, %35, %36;\n"
        "}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "r"(add), "n"(TRANS_A), "n"(TRANS_B));
}

// The same of 8 columns, both tiles K-major.
__device__ __forceinline__ void wgmma_m64n8k16(float (&d)[4], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(a), "l"(b));
}
