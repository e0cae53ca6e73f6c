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

// Arrives at the same barrier of another block of the cluster, which then sees what this thread has done in shared memory: a full fence.
__device__ __forceinline__ void release_cluster(Barrier& barrier, int block) {
    asm volatile(
        "{\n .reg .b32 remote;\n"
        " mapa.shared::cluster.u32 remote, %0, %1;\n"
        " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(&barrier)),
        "r"(block)
        : "memory");
}

// Waits as Barrier::wait() does, and then sees what other blocks of the cluster did before release_cluster().
__device__ __forceinline__ void acquire_cluster(Barrier& barrier, unsigned parity) {
    unsigned complete = 0;
    while (!complete)
        asm volatile(
            "{\n .reg .pred complete;\n"
            " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2;\n"
            " selp.u32 %0, 1, 0, complete;\n}"
            : "=r"(complete)
            : "r"(shared_address(&barrier)), "r"(parity)
            : "memory");
}

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

// A copy from global memory to L2 that has not been issued yet: a multiple of 16 bytes, 16-byte aligned; or nothing.
struct PendingPrefetch {
    const void* from;
    int bytes;

    __device__ __forceinline__ void issue() const {
        if (bytes > 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
    }
};

// Stores COUNT 8 x 8 matrices of 16-bit units, transposed: a lane has units (lane / 4, lane % 4 * 2) and the next of each, and lane
// 8 * i + j the address of the 16 bytes for column j of matrix i.
template <int COUNT>
__device__ __forceinline__ void store_transposed(void* shared, const unsigned (&units)[COUNT]) {
    static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "an instruction stores so many");
    if constexpr (COUNT == 4)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], { %1, %2, %3, %4 };" ::"r"(shared_address(shared)),
                     "r"(units[0]), "r"(units[1]), "r"(units[2]), "r"(units[3])
                     : "memory");
    else if constexpr (COUNT == 2)
        asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], { %1, %2 };" ::"r"(shared_address(shared)),
                     "r"(units[0]), "r"(units[1])
                     : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], { %1 };" ::"r"(shared_address(shared)),
                     "r"(units[0])
                     : "memory");
}

// Makes this thread's writes to shared memory visible to bulk copies (async proxy) that are issued after a barrier.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A barrier for the threads of consumer warpgroups, which are the first of a block.
template <int CONSUMERS>
__device__ __forceinline__ void sync_consumers() {
    asm volatile("barrier.sync 1, %0;" ::"n"(CONSUMERS * WARPGROUP) : "memory");
}

// A barrier for the threads of one consumer warpgroup.
__device__ __forceinline__ void sync_warpgroup(int warpgroup) {
    asm volatile("barrier.sync %0, %1;" ::"r"(2 + warpgroup), "n"(WARPGROUP) : "memory");
}

// ---- clusters: blocks that are co-scheduled and access each other's shared memory ----

// Loads 16 bytes from this address in the shared memory of a block of the cluster.
__device__ __forceinline__ void load_cluster(unsigned (&words)[4], const void* shared, int block) {
    asm volatile(
        "{\n .reg .b32 remote;\n"
        " mapa.shared::cluster.u32 remote, %4, %5;\n"
        " ld.shared::cluster.v4.b32 { %0, %1, %2, %3 }, [remote];\n}"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
        : "r"(shared_address(shared)), "r"(block)
        : "memory");
}

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

// Keeps A's registers of pending wgmma allocated, and unchanged, up to this point.
template <int N>
__device__ __forceinline__ void fence_registers(unsigned (&a)[N][4]) {
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) fence_register(a[i][j]);
}

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
