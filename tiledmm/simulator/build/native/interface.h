// The interface between Python and the runtime. The structures are mirrored in execute/interface.py, field by field.
// Depends on: nothing
#pragma once

#include <cstdint>

enum Space : uint32_t { SHARED, GLOBAL };
// COPY: cp.async, from global to shared memory. All from ARITHMETIC on are only in a trace.
enum Kind : uint32_t {
    LOAD, STORE, COPY, ARITHMETIC, BARRIER,
    INITIALISED, ARRIVED, EXPECTED, WAITS_FOR_PHASE, PASSED, COMPLETED,   // mbarriers; bytes: arrivals or bytes; other: the phase
    ISSUED, LANDED,                                                       // bulk copies; other: the offset of the barrier
    STORE_ISSUED, STORE_LANDED, STORES_COMMITTED, WAITS_FOR_STORES, STORES_WAITED,   // other: the group, or how many may be pending
    WGMMA_ISSUED, WGMMA_COMMITTED, WAITS_FOR_WGMMA, WGMMA_WAITED,         // other: B's offset; the group, or the first that is not waited for
    ARRIVED_AT_CLUSTER, WAITS_FOR_CLUSTER, CLUSTER_PASSED,                // other: the phase
};
enum Traced : uint32_t { NOTHING, ACCESSES, AND_ARITHMETIC };
enum Order : uint32_t { FORWARD, REVERSE, RANDOM, PREEMPTIVE };

enum FindingKind : uint32_t {
    OUTSIDE_GLOBAL,
    WRITES_OPERAND,
    OUTSIDE_SHARED,
    MISALIGNED,
    UNINITIALISED_SHARED,
    UNINITIALISED_RESULT,
    RACE_SHARED,
    RACE_GLOBAL,
    BARRIER_NOT_REACHED,
    WARP_NOT_REACHED,
    ASYNC_NOT_WAITED,
    RUNAWAY,
    TRAPPED,
    OUTSIDE_ARRAY,       // address: the subscript; bytes: the array's elements
    BARRIER_LEFT,        // a warning: on a GPU, threads that have ended count as arrived
    WARP_DIFFERS,
    SHUFFLE_SOURCE,      // bytes: the lane
    SHUFFLE_UNDEFINED,   // a warning: a GPU shuffles some value
    SHUFFLE_WIDTH,       // bytes: the width
    OUTSIDE_LOCAL,
    DIVISION,
    STACK_OVERFLOW,
    BAD_CALL,
    FAULT,
    STALLED,
    TIMED_OUT,
    EXITED,
    ASSERTION,
    BAD_COPY,
    WAITS_FOR_EVER,
    OUTSIDE_VARIABLE,
    UNSET_ELEMENT,
    SHUFFLE_ENDED,       // bytes: the lane
    CONVERSION,          // address: the value, a double; bytes: twice the logarithm of the integer's bits, and 1 if it has a sign
    BY_LUCK,             // a warning: an array is declared with fewer bytes of alignment
    VOLATILE_DATA,       // a warning: no fence before the write
    SHIFT,               // address: by how much; bytes: what is shifted, as for CONVERSION
    BROKEN_RULE,         // bytes: which of RULES in check/finding_kinds.py
    MISPRINTED,          // a warning; bytes: which argument of printf, from 1
    ENDLESS_BARRIERS,    // bytes: how many
    BEYOND_RANGE,        // a warning; address: the argument, a double; bytes: which of RANGES in check/finding_kinds.py
    EQUAL_WRITES,        // a warning: two writes of the same value that nothing orders
    NOT_RETURNED,        // an error only if a result depends on the value
    FREED_MEMORY,        // accessed; other: where it was freed
    BAD_FREE,            // bytes: which of FREES in check/finding_kinds.py
    UNSET_HEAP,
    CARRY_NOT_KEPT,      // a warning
    NOT_FREED,           // a warning; bytes: of the first allocation at the place
    UNFINISHED_COPY,     // details: see report_unfinished (asynchronous_memory.h)
    OVERWRITTEN,         // what an asynchronous operation reads, or who reads it; details[0]: whether it is in flight
    NO_PROXY_FENCE,
    DEADLOCK,            // details: see report_deadlock (clusters.h)
    BAD_BARRIER,         // bytes: which of FAULTS in check/asynchronous_kinds.py
    UNEXPECTED_BYTES,    // of a copy; bytes: how many; details[0]: 1 if the phase completed without them, 2 if it cannot complete
    BAD_BULK_COPY,       // bytes: which of FAULTS
    REGISTER_IN_FLIGHT,  // of a wgmma; details[0]: whether it is one of A; details[1]: whether its group was committed
    BAD_WGMMA,           // bytes: which of FAULTS
    ENDED_BLOCK,         // whose shared memory is accessed; details[0]: whether it may end before
    BAD_CLUSTER_BARRIER, // bytes: which of FAULTS
    BAD_REGISTERS,       // bytes: which of FAULTS
    WARPGROUP_READS,     // a warning: as OVERWRITTEN, by wgmma of a warp whose warpgroup's other warps were waited for
    BEFORE_WAIT,         // an access to what the launch before accesses
};

// One array in global memory.
struct Operand {
    uint64_t begin, bytes;    // its region
    uint64_t granule;         // bytes of an element, at most 16
    const uint8_t* valid;     // for each granule, whether it is an element of the array; null: all are
    uint64_t* writes;         // for each granule, the last write as a stamp of two words; null: read-only
    uint64_t* reads;          // for each granule, two readers as such stamps
    uint64_t defined;         // whether it holds something before the launch
    uint64_t constant;        // whether it is a variable in constant memory
    const uint8_t* unwritten; // for each granule, whether nobody wrote it before the launch; null: somebody wrote all
    uint64_t pending;         // whether the launch before, which may not have ended, accesses it
};

struct SharedArray {
    int64_t from_anchor;
    uint64_t bytes;
    uint64_t alignment;       // as declared; 0: not known
};

struct Launch {
    void (*run_thread)(void* const*);
    void* (*anchor)();
    void* const* arguments;
    uint32_t grid[3], block[3];
    const Operand* operands;
    const SharedArray* arrays;
    uint32_t operand_count, array_count;
    uint32_t checks, counts;
    uint32_t order, trace;
    uint64_t seed, traced_block;
    const uint64_t* chosen;   // numbers of the blocks that run; null: all blocks of the grid
    uint64_t chosen_count;
    uint64_t max_steps;       // accesses after which a thread counts as running away; 0: no limit
    uint64_t code, code_end;  // the kernel's machine code
    uint64_t constants, constants_end;   // and its constants without names
    uint32_t guarded;         // whether the kernel marks the bytes around its variables
    uint32_t workers;         // PREEMPTIVE: how many take turns; of a cooperative launch: how many run at a time
    uint32_t uses;            // which of USES the kernel's code has
    uint32_t clock_rate;      // ticks of its clock per access
    uint32_t shared_fill;     // what bytes of shared memory are when a block begins: above 255, what the last block left
    uint32_t arch, stall;     // __CUDA_ARCH__; milliseconds without access or switch after which a thread has stalled, 0: no limit
    uint32_t cooperative;     // whether all blocks are resident: each has a worker, of which as many run as `workers` says
    // For a place in the code: its group, and the widest access in machine code to shared and global memory. May be null.
    void (*describe)(uint64_t pc, uint32_t kind, uint64_t answer[3]);
    uint64_t undefined_at;    // a place at which undefined values of shuffles are bytes of undefined_fill; 0: none, they are NaN
    uint64_t undefined_fill;
    // Blocks of a cluster; zeros for a launch without clusters. With more than one block, `workers` counts clusters: each has a
    // thread of the OS per block, and so tiledmm_work is called `workers` times the blocks of a cluster. Then `chosen` has
    // whole clusters, one after the other, with their blocks by rank.
    uint32_t cluster[3];
};

// What a kernel's code calls: partial barriers, fences or atomics, which order some threads and not others; volatile accesses; wgmma;
// mbarrier.inval.
constexpr uint32_t ORDERS_SOME = 1, HAS_VOLATILE = 2, MULTIPLIES = 4, INVALIDATES = 8;

constexpr unsigned MAX_CALLS = 8;

struct Finding {
    uint64_t count, pc, other_pc, address;
    uint64_t calls[MAX_CALLS];   // where the function of pc was called, and so on outwards
    uint32_t kind, space, bytes, writes, other_writes;
    uint32_t block[3], thread[3], other_block[3], other_thread[3];
    uint32_t unfenced;   // of a race: 1 if a flag would order the two, were there a fence after it is read; 2: before it is written;
                         // 3 if an mbarrier orders the two in the scope of a block only
    uint32_t one_warp;   // whether both threads were in one warp, each time
    uint32_t warp, present;      // number of the thread's warp in the block, and a mask of the lanes that the warp has
    uint32_t mask, other_mask;   // of a barrier or an exchange of lanes: which lanes it names
    uint64_t allocation, allocated, allocated_at;   // of an address in the heap: address and bytes of the allocation, and where it was made
    uint64_t waited_at;          // of a copy: a wait of its thread that was for committed copies only; 0: none, or it is committed
    uint64_t uncommitted;        // whether the copy is in no group
    uint64_t details[4];         // of findings about asynchronous operations
};

// Requests are accesses of a warp. Units are wavefronts in shared memory and sectors in global memory.
struct Counts {
    uint64_t requests, lanes, bytes, units, ideal;
};

struct SiteCounts {
    uint64_t pc, flops, barriers;   // barriers of a block
    uint64_t phases;                // completed ones of mbarriers that are initialised there
    uint32_t bytes, kind;
    Counts source[2], sass[2];   // by space
};

struct TraceEvent {   // arithmetic and a block's barriers have no address, and a barrier no thread
    uint64_t pc, address, step, other;
    uint32_t thread, bytes, kind, space;
    uint32_t rank, by;   // ranks in the cluster: of the block whose shared memory it is, and of the thread's block
};

struct Run;

extern "C" {
#pragma GCC visibility push(default)
Run* tiledmm_begin(const Launch* launch);
// Runs blocks until none is left; one call per core, and of a cooperative launch one per block. 0: done, 1: no memory.
int tiledmm_work(Run* run);
uint64_t tiledmm_blocks_done(const Run* run);
uint64_t tiledmm_ran_out(const Run* run);   // whether the time was up, and no thread was there to say so
uint64_t tiledmm_deepest(const Run* run, uint64_t* pc);   // bytes of the deepest stack at an access, and the access; 0: no deep one
void tiledmm_stop(Run* run);
void tiledmm_time_out(Run* run);   // the same, with a finding
void tiledmm_watch(Run* run);      // to be called from time to time: ends threads that have stalled, or are to stop
uint64_t tiledmm_output(const Run* run, const char** text);   // of printf
uint64_t tiledmm_findings(Run* run, const Finding** findings);
uint64_t tiledmm_counts(Run* run, const SiteCounts** counts);
uint64_t tiledmm_trace(const Run* run, const TraceEvent** events);
uint64_t tiledmm_barriers(const Run* run);
int tiledmm_synchronizes(const Run* run);   // whether threads used atomics, volatile accesses, fences or named barriers
void tiledmm_places(const Run* run, uint64_t* places);   // of accesses, by their numbers in cells; 0: unused
uint64_t tiledmm_steps(const Run* run, uint64_t* most);   // accesses of all threads, and of the one that made most
void tiledmm_end(Run* run);

// `count` regions of memory with `guard` inaccessible bytes around each; region i begins at addresses[i], a multiple of 512.
// Null if there is no memory.
void* tiledmm_reserve(uint64_t count, const uint64_t* bytes, uint64_t guard, uint64_t* addresses, uint64_t* reserved);
void tiledmm_release(void* memory, uint64_t reserved);
#pragma GCC visibility pop
}
