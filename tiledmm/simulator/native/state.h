// What a launch, a worker and a thread are made of.
//
// Everything is in one translation unit, runtime.cpp, so that the way of an access is one function.
//
// Depends on: interface.h
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "interface.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define CALLER __builtin_return_address(0)

constexpr unsigned WARP = 32;
constexpr unsigned BANKS = 32;
constexpr unsigned MAX_THREADS = 1024;
constexpr size_t STACK_BYTES = 128 * 1024;
constexpr unsigned LOG_ENTRIES = 1 << 15;   // accesses a lane may make before its warp's are worked through
constexpr unsigned SITES = 1 << 14;         // places in a kernel's code that access memory
constexpr unsigned SLOT_BITS = 16;          // shared arrays begin at multiples of 64 KiB (cuda.h)
constexpr unsigned MAX_FINDINGS = 256;      // different ones; each is counted

struct Index {
    unsigned x, y, z;
};

// ---- what a place in the code did, and where it is ----

struct Site {
    std::atomic<uint64_t> pc;     // 0: free
    std::atomic<uint32_t> ready;  // what follows is filled in
    uint32_t bytes, kind;
    uint32_t group;               // accesses of one group may be one vector access in machine code (a source line)
    uint32_t width[2];            // the widest such access in bytes, in shared and in global memory
};

struct Pattern {   // the last request of a site: the next is often the same, elsewhere
    uint32_t mask = 0, units = 0, ideal = 0, phase = 0;
    int32_t relative[WARP] = {};
};

// ---- shadow cells: who touched a piece of memory last ----

// Shared memory: two that read it and one that wrote it.   epoch 26 | warp epoch 12 | thread 10 | site 14 | flags 2
// An epoch is what lies between two barriers of the block; a warp epoch, between two of the warp.
using Cell = uint64_t;
constexpr Cell IN_FLIGHT = 1;   // written by a cp.async that has not been waited for

ALWAYS_INLINE Cell make_cell(uint64_t epoch, uint64_t warp_epoch, uint64_t thread, uint64_t site) {
    return epoch << 38 | (warp_epoch & 0xfff) << 26 | thread << 16 | site << 2;
}
ALWAYS_INLINE uint64_t epoch_of(Cell cell) { return cell >> 38; }
ALWAYS_INLINE unsigned warp_epoch_of(Cell cell) { return cell >> 26 & 0xfff; }
ALWAYS_INLINE unsigned thread_of(Cell cell) { return cell >> 16 & 0x3ff; }
ALWAYS_INLINE unsigned site_of(Cell cell) { return cell >> 2 & 0x3fff; }

// The result:   block + 1 30 | thread 10 | site 14 | epoch 10 (of the block, modulo)
ALWAYS_INLINE Cell make_result_cell(uint64_t block, uint64_t thread, uint64_t site, uint64_t epoch) {
    return (block + 1) << 34 | thread << 24 | site << 10 | (epoch & 0x3ff);
}

// ---- threads ----

enum class State : uint8_t { READY, AT_BARRIER, AT_WARP, PAUSED, DONE };

struct Pending {   // a copy by cp.async that has not been waited for
    uint8_t* shared;
    uint32_t bytes, site;
    uint8_t data[16];
};

struct Fiber {
    void* stack_pointer = nullptr;
    State state = State::DONE;
    unsigned thread = 0;
    Index index = {};
    const void* barrier = nullptr;
    unsigned waits_for = 0;       // lanes, at a barrier of the warp
    unsigned warp_epoch = 0;      // barriers of the warp since the block's last
    unsigned exchanges = 0;
    uint64_t given[2] = {};       // for others to read; a thread is at most one exchange ahead
    uint64_t steps = 0;
    std::vector<Pending> pending;
    std::vector<size_t> groups;   // ends of committed groups in `pending`
};

// ---- counting ----

// What the lanes of a warp did at the same place at the same time.
struct Request {
    unsigned site, space, mask;
    uintptr_t address[WARP];
};

// Scalar accesses of a source line that lie side by side in every lane may be one vector access in machine code. The
// pieces of such an access come in the order in which the source makes them, with others in between.
struct Vector {
    Request request;
    unsigned bytes;   // so far
};

struct Worker;

class Joiner {
public:
    void take(Worker& w, const Request& r);
    void finish(Worker& w);   // at the end of what a warp did between two barriers: no vector goes on behind it

private:
    static void close(Worker& w, const Request& r, unsigned bytes);
    static void shut(Worker& w, const Vector& v);
    std::unordered_map<uint64_t, Vector> open_;   // by group, kind, space and where the first lane's next piece would be
};

struct Run;

struct Worker {
    Run* run = nullptr;
    Fiber* current = nullptr;
    void* scheduler = nullptr;    // stack pointer
    uint8_t* stacks = nullptr;
    std::vector<Fiber> fibers;
    Index block = {};
    uint64_t block_number = 0;
    bool aborted = false;

    uintptr_t shared_base = 0;
    size_t shared_span = 0;
    std::vector<uint32_t> limits;   // bytes in use of each 64 KiB
    unsigned granule_shift = 2;     // a cell is for 4 bytes until a kernel accesses less
    std::vector<Cell> reads, more_reads, writes;
    uint64_t epoch = 1, first_epoch = 1;

    std::vector<uint64_t> log;      // a lane after the other
    unsigned logged[WARP] = {};
    std::vector<SiteCounts> counts;
    std::vector<Pattern> patterns;
    Joiner joiner;
    unsigned votes[2] = {}, vote_epoch = 0;
    uint64_t barriers = 0, barriers_before = 0;   // the second: this block
    uint64_t random = 1;
    std::vector<TraceEvent> trace;
};

struct Run {
    Launch launch;
    Index grid, block;
    unsigned threads, warps;
    uint64_t blocks;
    std::atomic<uint64_t> next{0}, finished{0};
    std::atomic<bool> stop{false};
    std::mutex lock;
    std::vector<Finding> findings;
    std::unordered_map<uint64_t, size_t> finding_index;
    std::vector<SiteCounts> counts;   // by site; merged when a worker ends
    std::vector<TraceEvent> trace;
    uint64_t barriers = 0;
    Site sites[SITES];
};

// Whether what the current block does is recorded, in so much detail.
ALWAYS_INLINE bool is_traced(const Worker& w, Traced detail) {
    return w.run->launch.trace >= detail && w.block_number == w.run->launch.traced_block;
}

// Small enough for the static storage that a dynamically loaded library may have.
__attribute__((tls_model("initial-exec"))) thread_local Worker* worker = nullptr;
