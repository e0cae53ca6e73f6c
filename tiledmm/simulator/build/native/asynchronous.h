// Functions of the runtime for Hopper's asynchronous instructions: mbarriers, bulk copies and TMA, clusters, and wgmma.
//
// An address in shared memory is a number of 32 bits, as in PTX: of this block's memory an offset in its window
// (tiledmm_shared_offset), of another block's of the cluster the same with its rank plus one in the bits from 24 on.
//
// Depends on: runtime.h
#pragma once

#include "runtime.h"

namespace tiledmm_detail {

// How a barrier is used: bits of the flags below.
enum BarrierUse : unsigned {
    PARITY = 1,        // waits for the phase of a parity, not for that of a token
    MAY_WAIT = 2,      // try_wait
    RELAXED = 4,       // orders no memory
    OF_CLUSTER = 8,    // scope .cluster
    DROPS = 16,        // arrive_drop
    EXPECTS = 32,      // arrive.expect_tx
    NO_COMPLETE = 64,
    NO_INCREMENT = 128,   // cp.async.mbarrier.arrive.noinc: the barrier's count has this arrival already
};

// What a bulk copy does, and where it copies to and from.
enum CopyWay : unsigned { TO_SHARED, TO_CLUSTER, TO_GLOBAL, BETWEEN_SHARED, TO_L2 };
enum Reduction : unsigned { NO_REDUCTION, ADD, MIN, MAX, INC, DEC, AND, OR, XOR };
enum ElementType : unsigned { U8, U16, U32, S32, U64, S64, F16, F32, F64, BF16, TF32, B32, B64, S8, E4M3, E5M2 };

struct BulkCopy {
    CopyWay way;
    Reduction reduction;
    ElementType type;          // of a reduction
    unsigned shared;           // the address in shared memory: destination of TO_SHARED, TO_CLUSTER and BETWEEN_SHARED
    unsigned source;           // BETWEEN_SHARED: address in this block's shared memory
    void* global;
    unsigned bytes;
    unsigned barrier;          // that counts the bytes; not of TO_GLOBAL and TO_L2
    unsigned blocks;           // multicast: mask of the cluster's blocks; 0 for none
    unsigned has_barrier;
};

struct TensorCopy {
    CopyWay way;
    Reduction reduction;
    const void* map;           // of 128 bytes
    unsigned dimensions;
    int at[5];                 // coordinates, fastest first
    unsigned shared, barrier, blocks;
};

// D = A @ B + D of a warp's 16 of 64 rows, in N columns.
struct Wgmma {
    ElementType a_type, b_type, sum_type;   // sum_type: F32, F16 (two in a register) or S32
    unsigned n, k;
    unsigned registers;                     // of sums, per thread
    void* const* sums;                      // places of these, each 4 bytes
    unsigned a_in_registers;
    unsigned a[4];
    const void* a_places[4];                // of the registers of A; null for values that are in no variable
    unsigned long long a_descriptor, b_descriptor;
    unsigned scale_d;
    int scale_a, scale_b;                   // 1 or -1
    unsigned transposes_a, transposes_b;    // MN-major
    unsigned saturates;
};

}   // namespace tiledmm_detail

extern "C" {
// ---- mbarriers ----
void tiledmm_barrier_init(unsigned at, unsigned arrivals);
void tiledmm_barrier_invalidate(unsigned at);
unsigned long long tiledmm_barrier_arrive(unsigned at, unsigned arrivals, unsigned bytes, unsigned flags);   // returns a token
void tiledmm_barrier_expect(unsigned at, unsigned bytes, unsigned flags);     // expect_tx
void tiledmm_barrier_complete(unsigned at, unsigned bytes, unsigned flags);   // complete_tx
bool tiledmm_barrier_wait(unsigned at, unsigned long long phase, unsigned flags);   // test_wait, try_wait: whether it is complete
unsigned tiledmm_barrier_pending(unsigned long long token);
void tiledmm_barrier_arrive_after_copies(unsigned at, unsigned flags);        // cp.async.mbarrier.arrive
void tiledmm_barrier_init_fence();                                             // fence.mbarrier_init.release.cluster
void tiledmm_proxy_fence(unsigned spaces);   // fence.proxy.async; bits: 1 shared memory, 2 global memory

// ---- bulk copies ----
void tiledmm_copy_bulk(const tiledmm_detail::BulkCopy* copy);
void tiledmm_copy_tensor(const tiledmm_detail::TensorCopy* copy);
void tiledmm_commit_bulk();
void tiledmm_wait_for_bulk(unsigned pending, unsigned reads_only);
// st.async and red.async: `bytes` of `value` to an address in shared memory; the barrier, in the same block, counts them.
void tiledmm_store_async(unsigned to, unsigned barrier, const void* value, unsigned bytes, tiledmm_detail::Reduction reduction,
                         tiledmm_detail::ElementType type);

// ---- clusters ----
unsigned tiledmm_map_shared(unsigned at, unsigned rank);             // mapa: the same address in another block
void* tiledmm_map_generic(const void* at, unsigned rank);
unsigned tiledmm_rank_of(unsigned at);                               // getctarank
unsigned tiledmm_rank_of_generic(const void* at);
void* tiledmm_cluster_address(unsigned at);                          // where loads and stores of .shared::cluster access
unsigned tiledmm_window_address(const void* generic);                // the address of what a generic pointer points to
void tiledmm_arrive_at_cluster(unsigned relaxed, unsigned aligned = 0);
void tiledmm_wait_at_cluster(unsigned relaxed, unsigned aligned = 0);
uint3 tiledmm_cluster_size() __attribute__((const));                 // %cluster_nctaid
uint3 tiledmm_cluster_block() __attribute__((const));                // %cluster_ctaid
uint3 tiledmm_cluster_index() __attribute__((const));                // %clusterid
unsigned tiledmm_cluster_rank() __attribute__((const));              // %cluster_ctarank
bool tiledmm_has_cluster() __attribute__((const));                   // %is_explicit_cluster

// ---- wgmma, by all lanes of a warp ----
void tiledmm_wgmma(const tiledmm_detail::Wgmma* product);
void tiledmm_wgmma_fence();
void tiledmm_wgmma_commit();
void tiledmm_wgmma_wait(unsigned pending);

void tiledmm_set_registers(unsigned count, unsigned increases);      // setmaxnreg
}
