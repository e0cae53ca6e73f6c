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
