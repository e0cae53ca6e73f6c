// Checks of an access before it happens, and the findings: place in the code, block and threads.
// Depends on: fibers.h, ordering.h, releases.h, state.h
#pragma once

#include "fibers.h"
#include "ordering.h"
#include "releases.h"
#include "state.h"

// ---- findings ----

inline Index index_of(const Run& run, uint64_t number) {
    const uint64_t xy = static_cast<uint64_t>(run.grid.x) * run.grid.y;
    return {static_cast<unsigned>(number % run.grid.x), static_cast<unsigned>(number / run.grid.x % run.grid.y),
            static_cast<unsigned>(number / xy)};
}

inline uint64_t number_of(const Run& run, const Finding& finding) {
    return finding.block[0] + static_cast<uint64_t>(run.grid.x) * (finding.block[1] + static_cast<uint64_t>(run.grid.y) * finding.block[2]);
}

inline Index thread_index(const Run& run, unsigned thread) {
    return {thread % run.block.x, thread / run.block.x % run.block.y, thread / (run.block.x * run.block.y)};
}

inline void set(uint32_t (&to)[3], Index from) {
    to[0] = from.x;
    to[1] = from.y;
    to[2] = from.z;
}

struct Other {   // the other party of a race, or of a barrier
    uint64_t pc = 0;
    uint64_t block = 0;
    unsigned thread = 0;
    bool writes = false;
    unsigned unfenced = 0;   // see lacks_fence
    unsigned mask = 0;       // of the lanes that the other names, where it waits for lanes
};

inline uint8_t* stack_of(const Worker& w, unsigned thread) { return w.stacks + thread * STACK_BYTES; }

// Where a thread's first frame ends. The lanes of a warp begin in other cache lines, and addresses differ at another clock rate.
inline uint8_t* stack_top(const Worker& w, unsigned thread) {
    return stack_of(w, thread) + STACK_BYTES - thread % WARP * 192 - 4096 * (std::max(w.run->launch.clock_rate, 1u) - 1);
}

ALWAYS_INLINE bool in_code(const Run& run, uint64_t pc) { return pc - run.launch.code < run.launch.code_end - run.launch.code; }

inline uint64_t pc_of(const Run& run, unsigned site) { return run.sites[site].pc; }

// The number of the instruction before a place in the code (its return address), among the sites of the run.
unsigned find_site(Run& run, const void* place, unsigned bytes, unsigned kind);

// Return addresses in the kernel's code, from a frame of the current thread on outwards; of many, the first and the last.
unsigned find_calls(const Worker& w, uintptr_t frame, uint64_t (&calls)[MAX_CALLS]);

// Keeps a finding, or counts it if it is known. The run is locked. Few places remain for races: the finding that ends a launch
// must find one.
void keep(Run& run, const Finding& finding);

// Sorts the findings by their blocks, and drops those of blocks behind the one that ended the launch: that others had begun is chance.
void sort_findings(Run& run);

// After a write that nothing orders after another: whether it has changed the value.
void look_at_overwritten(Worker& w, Fiber& fiber);

Finding make_finding(const Worker& w, FindingKind kind, uint64_t pc, bool writes, uintptr_t address, unsigned bytes, Other other,
                     uintptr_t frame = 0);

// Adds to a finding about a copy to an address whether its thread has committed it, and a wait that was not for it.
inline void add_wait(Finding& finding, const Fiber& fiber, uintptr_t address) {
    for (size_t i = fiber.groups.empty() ? 0 : fiber.groups.back(); i < fiber.pending.size(); ++i) {
        const Pending& copy = fiber.pending[i];
        if (address - reinterpret_cast<uintptr_t>(copy.shared) >= copy.bytes) continue;
        finding.uncommitted = true;
        finding.waited_at = reinterpret_cast<uint64_t>(copy.passed_at);
    }
}

void report(Worker& w, const Finding& finding);

// Keeps a finding of the current thread, whose calls are those of `frame` or of the caller of this.
void report(Worker& w, FindingKind kind, uint64_t pc, bool writes, uintptr_t address, unsigned bytes, Other other = {},
            uintptr_t frame = 0);
[[noreturn]] void end_as_told(Worker& w, const void* place);
[[noreturn]] void report_and_abort(Worker& w, FindingKind kind, const void* place, bool writes, uintptr_t address, unsigned bytes);

// Ends the current thread if it is to end: what a signal cannot do while the thread runs the runtime's code (faults.h).
ALWAYS_INLINE void end_if_told(Worker& w, const void* place) {
    if (w.ends.load(std::memory_order_relaxed)) [[unlikely]] end_as_told(w, place);
}

// ---- barriers of a warp (warp_barriers.h) ----

void sync_warp(unsigned mask, const void* place, unsigned kind, void (*when_all)(Worker&, unsigned warp) = nullptr);

// ---- asynchronous operations (asynchronous_memory.h, remote_accesses.h, warpgroups.h, bulk_copies.h) ----

// Whether the current thread knows that an access of its block, of this epoch, was made before now.
bool is_ordered(const Worker& w, Cell earlier);

// An access that meets memory into which an asynchronous operation has written, or that one reads.
void report_unfinished(Worker& w, const Worker& owner, Cell written, size_t offset, unsigned bytes, bool writes, uint64_t pc);
void report_overwritten(Worker& w, Cell read, size_t offset, unsigned bytes, uint64_t pc);

void check_async_reads(Worker& w, const Worker& owner, uintptr_t offset, unsigned bytes, uint64_t pc, unsigned& told);

// One cell for each byte of shared memory instead of one for 4 bytes.
void refine(Worker& w);

// Checks an access of the current thread to shared memory against asynchronous operations and other blocks' accesses.
void check_beside_asynchronous(Worker& w, size_t offset, unsigned bytes, unsigned how, unsigned site);

// Whether a thread of another block of the cluster has written a cell.
inline bool is_written_remotely(const Worker& w, size_t cell) {
    const auto found = w.remote.find(cell);
    return found != w.remote.end() &&
           std::any_of(found->second.begin(), found->second.end(), [](const RemoteAccess& each) { return each.writes; });
}

// An access to shared memory of another block of the cluster. Returns whether the address is one.
bool on_remote_access(Worker& w, uintptr_t address, unsigned bytes, unsigned how, unsigned kind, const void* place, unsigned alignment);

// An access to a variable that stands for a register of a wgmma.
void on_register(Worker& w, uintptr_t address, unsigned bytes, bool writes, const void* place);

// A read of global memory to which a bulk copy in flight of the cluster goes.
void check_bulk_stores(Worker& w, uintptr_t address, unsigned bytes, bool writes, const void* place);

// ---- accesses ----

// How an access is made.
// COMPARES: an atomic whose result is the same if the value was read before and nobody has changed it; IS_PART: of a copy.
constexpr unsigned READS = 0, WRITES = 1, IS_ATOMIC = 2, IS_VOLATILE = 4, IS_COPY = 8, COMPARES = 16, IS_PART = 32;
constexpr unsigned UNCOUNTED = 64;   // a part of a bulk copy, which is counted as one; or of an mbarrier
constexpr unsigned PREFETCHES = 128;

// Before memory of malloc is freed: whether other threads' accesses to it are ordered before.
void on_free(Worker& w, uintptr_t address, const void* place);

// Checks and counts an access of the current thread, before it happens. Plain accesses of 1 to 16 bytes have copies of their own.
void on_other_access(uintptr_t address, unsigned bytes, unsigned how, unsigned kind, const void* place, unsigned alignment);

ALWAYS_INLINE void record(Worker& w, uintptr_t address, unsigned site, Space space) {
    const unsigned lane = w.current->thread % WARP;
    w.counters.log[static_cast<size_t>(lane) * (LOG_ENTRIES + 72) + w.logged[lane]] =
        static_cast<uint64_t>(address) << 16 | site << 1 | space;
    if (++w.logged[lane] == LOG_ENTRIES) leave(w, State::PAUSED);
}

ALWAYS_INLINE bool in_stacks(const Worker& w, uintptr_t address) {
    return address - reinterpret_cast<uintptr_t>(w.stacks) < MAX_THREADS * STACK_BYTES;
}
