// Data of a launch, a worker and a thread.
//
// Everything is in one translation unit, runtime.cpp, so that the compiler inlines the path of an access.
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
constexpr unsigned LOG_ENTRIES = 1 << 15;   // accesses of a lane before those of its warp are processed
constexpr unsigned SITES = 1 << 14;         // instructions of a kernel that access memory
constexpr unsigned SLOT_BITS = 16;          // shared arrays are aligned to 64 KiB
constexpr unsigned MAX_FINDINGS = 256;      // different findings; occurrences of each are counted

struct Index {
    unsigned x, y, z;
};

// ---- sites: instructions that access memory ----

struct Site {
    std::atomic<uint64_t> pc;     // 0: unused
    std::atomic<uint32_t> ready;  // the rest is valid
    uint32_t bytes, kind;
    uint32_t group;               // accesses of one group (a source line) may be one vector access in machine code
    uint32_t width[2];            // bytes of the widest such access to shared and to global memory
};

struct Pattern {   // the last request of a site: the next often has the same pattern at another address
    uint32_t mask = 0, units = 0, ideal = 0, phase = 0;
    int32_t relative[WARP] = {};
};

// ---- shadow cells: the last accesses of a granule ----

// Shared memory: two readers and one writer.   epoch 26 | warp epoch 12 | thread 10 | site 14 | flags 2
// An epoch is the time between two barriers of the block; a warp epoch, between two of the warp.
using Cell = uint64_t;
constexpr Cell IN_FLIGHT = 1;   // written by a cp.async without a wait so far

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

struct Pending {   // a copy by cp.async without a wait so far
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
    uint64_t given[2] = {};       // read by other lanes; a thread is at most one exchange ahead
    uint64_t steps = 0;
    std::vector<Pending> pending;
    std::vector<size_t> groups;   // ends of committed groups in `pending`
};

// ---- counting ----

// Accesses of the lanes of a warp by one instruction.
struct Request {
    unsigned site, space, mask;
    uintptr_t address[WARP];
};

// Scalar accesses of a source line that are contiguous in every lane may be one vector access in machine code. They come
// in the order of the source, with others in between.
struct Vector {
    Request request;
    unsigned bytes;   // so far
};

struct Worker;

class Joiner {
public:
    void take(Worker& w, const Request& r);
    void finish(Worker& w);   // at a barrier of the block: no vector continues after it

private:
    static void close(Worker& w, const Request& r, unsigned bytes);
    static void shut(Worker& w, const Vector& v);
    std::unordered_map<uint64_t, Vector> open_;   // by group, kind, space and address of the first lane's next element
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
    unsigned granule_shift = 2;     // a cell covers 4 bytes until a kernel accesses fewer
    std::vector<Cell> reads, more_reads, writes;
    uint64_t epoch = 1, first_epoch = 1;

    std::vector<uint64_t> log;      // lane by lane
    unsigned logged[WARP] = {};
    std::vector<SiteCounts> counts;
    std::vector<Pattern> patterns;
    Joiner joiner;
    unsigned votes[2] = {}, vote_epoch = 0;
    uint64_t barriers = 0, barriers_before = 0;   // the second: when this block began
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

// Whether events of the current block are recorded in this detail.
ALWAYS_INLINE bool is_traced(const Worker& w, Traced detail) {
    return w.run->launch.trace >= detail && w.block_number == w.run->launch.traced_block;
}

// Small enough for the static storage that a dynamically loaded library may have.
__attribute__((tls_model("initial-exec"))) thread_local Worker* worker = nullptr;
