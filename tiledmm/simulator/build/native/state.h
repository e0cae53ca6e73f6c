// Data of a launch, a worker and a thread.
//
// There are three translation units, which are compiled at the same time: checks.cpp has the path of an access, so that the
// compiler inlines it, asynchronous.cpp what Hopper's asynchronous instructions call, and runtime.cpp all else.
//
// Depends on: interface.h
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pthread.h>

#include "interface.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define CALLER __builtin_return_address(0)

constexpr unsigned WARP = 32;
constexpr unsigned BANKS = 32;
constexpr unsigned MAX_THREADS = 1024;
constexpr size_t STACK_BYTES = 640 * 1024;   // a thread has at most 512 KiB of local memory
constexpr size_t STACKS_ALIGNMENT = 8 * 65536;   // of the workers' of a cooperative launch, so that their shadows share no page
constexpr size_t DEEP_BYTES = 2048;          // twice what a GPU gives to calls of unknown depth: frames are larger here
constexpr size_t GUARD_BYTES = 4096;         // below each stack
constexpr size_t MOST_GUARDS = 16384;        // of a launch whose blocks are all resident
constexpr unsigned LOG_ENTRIES = 1 << 15;   // accesses of a lane before those of its warp are processed
constexpr unsigned SITES = 1 << 14;         // instructions of a kernel that access memory
constexpr unsigned SLOT_BITS = 16;          // shared arrays are aligned to 64 KiB
constexpr unsigned MOST_ALIGNMENT = 16;     // that an access needs
constexpr uintptr_t REACH = 64 << 20;       // bytes by which an access may miss an array and still be said to be beside it
constexpr unsigned MAX_FINDINGS = 256;      // different findings; occurrences of each are counted
constexpr unsigned MAX_RACES = 192;         // findings after which races are not kept: two lines of a loop can make hundreds

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

// An epoch is the time between two barriers of the block. A thread's clock counts the barriers of its warp, and the fences,
// that it passed: what another thread did is ordered before an access of this one if this one knows a later clock of it.

// Shared memory: two readers and one writer.   epoch 25 | clock, from its base on 12 | thread 11 | site 14 | flags 2
// Behind the block's threads come its agents (Agent).
using Cell = uint64_t;
constexpr Cell IN_FLIGHT = 1;   // written by an asynchronous copy without a wait so far
constexpr Cell STRONG = 2;      // by an atomic, a volatile read, or a volatile write that sets a flag
constexpr unsigned CELL_CLOCKS = 1 << 12, CELL_THREADS = 1 << 11, CELL_CLOCK = 27, CELL_EPOCH = 39;

ALWAYS_INLINE Cell make_cell(uint64_t epoch, uint64_t clock, uint64_t thread, uint64_t site) {
    return epoch << CELL_EPOCH | clock << CELL_CLOCK | thread << 16 | site << 2;
}
ALWAYS_INLINE uint64_t epoch_of(Cell cell) { return cell >> CELL_EPOCH; }
ALWAYS_INLINE unsigned clock_of(Cell cell) { return cell >> CELL_CLOCK & (CELL_CLOCKS - 1); }
ALWAYS_INLINE unsigned thread_of(Cell cell) { return cell >> 16 & (CELL_THREADS - 1); }
ALWAYS_INLINE unsigned site_of(Cell cell) { return cell >> 2 & 0x3fff; }

// Global memory.   block 32 | thread 10 | site 14 | flags 8,   bytes of the granule 16 | epoch in the block 24 | clock 24
struct Stamp {
    uint64_t who, when;

    unsigned block() const { return who >> 32; }
    unsigned thread() const { return who >> 22 & 0x3ff; }
    unsigned site() const { return who >> 8 & 0x3fff; }
    bool is_strong() const { return who & 6; }
    unsigned bytes() const { return when >> 48; }
    unsigned epoch() const { return when >> 24 & 0xffffff; }
    unsigned clock() const { return when & 0xffffff; }
};
constexpr uint64_t VALID = 1, ATOMIC_STAMP = 2, VOLATILE_STAMP = 4;
constexpr uint64_t FLAG_STAMP = 8;    // of a volatile write that sets a flag
constexpr uint64_t BLOCK_STAMP = 16;  // of an atomic of block scope
constexpr uint64_t BEFORE = VALID;   // of no thread: what was written before the launch (execute/memory.py). `when` may be the next stamp's

// Readers of a cell beyond the two that are kept beside it: lanes of one warp that read it at one clock.
struct LaneReaders {
    Cell cell;
    unsigned lanes;
};
struct StampReaders {
    Stamp stamp;
    unsigned lanes;
};

// ---- threads ----

// SPINS: reads the same addresses again and again, and waits for others to run.
// ASKS: for the lanes that run with it.
// AT_PHASE: for what Fiber::wait says, which only other threads or asynchronous operations bring about.
enum class State : uint8_t { READY, AT_BARRIER, AT_GRID, AT_NAMED, AT_WARP, AT_PHASE, PAUSED, SPINS, ASKS, DONE };

// What a thread waits for at a barrier of its warp: all lanes must wait for the same.
constexpr unsigned WARP_BARRIER = 0;
constexpr unsigned WHOLE_WARP = 1 + 100;   // from here on, exchanges for tensor cores (tensor_cores.h): no lane may have ended

constexpr unsigned SPIN_SLICE = 4096;     // accesses between two looks at whether a thread spins
constexpr unsigned SPIN_SAMPLE = 128;     // accesses of such a look
constexpr unsigned SPIN_ADDRESSES = 16;   // the most that a thread that spins accesses
// Barriers of a block, and barriers and exchanges for each of its warps, without a write of any thread of the block in between,
// after which they never end; and barriers of a block altogether.
constexpr uint64_t IDLE_BARRIERS = 1 << 20, IDLE_EXCHANGES = 1 << 24, MOST_BARRIERS = 1 << 25;
constexpr uint64_t SPIN_ROUNDS = 1 << 16;   // looks without progress of any thread after which all wait forever

struct Sync;

// What is ordered before all that a thread does next: of its cluster, what each thread or agent did before a clock, and what
// each block's threads did before an epoch.
struct Knowledge {
    std::vector<unsigned> clocks;   // by rank of the block, and number in the block (Worker::members)
    std::vector<unsigned> epochs;   // by rank
};

constexpr uint8_t CARRY_SET = 1, CARRY_IS_ONE = 2, CARRY_VOLATILE = 4;   // the last: by asm volatile

struct Acquired {   // what a thread knows from a location in memory: what was released there from one version up to another
    Sync* from;
    unsigned since, version;
};

struct Pending {   // a copy by cp.async without a wait so far
    uint8_t* shared;
    uint32_t bytes, site;
    uint8_t data[16];
    uintptr_t global;        // where `source_bytes` of it come from; the others are zeros
    uint32_t source_bytes;
    const void* passed_at;   // a wait of its thread since, which was for committed copies only; null: none, or it is committed
};

struct Fence {
    bool done = false;
    unsigned epoch = 0, clock = 0;   // of the thread, then
};

// A fence between what was written by threads, and what asynchronous operations do next.
struct ProxyFence {
    Fence fence;
    std::shared_ptr<const Knowledge> others;   // what its thread knew then
    unsigned known[WARP] = {};
};

// What a thread waits for in state AT_PHASE.
enum class Wait : uint8_t { PHASE, CLUSTER, WARPGROUP, REGISTERS };
struct Waiting {
    Wait what = Wait::PHASE;
    const void* place = nullptr;
    unsigned barrier = 0;        // PHASE: its offset in shared memory
    unsigned phase = 0;          // its number
    bool may_fail = false;       // it may go on without success: try_wait
};

struct LastWait {   // for a phase, with success
    const void* place = nullptr;
    unsigned barrier = 0, phase = 0;   // the number of the first phase that it did not wait for
    bool at_once = false;              // whether the phase had completed before
};

// Registers of a thread that a wgmma in flight uses: the places of the variables that stand for them.
struct InFlight {
    uintptr_t begin = 0, end = 0;
    bool is_sum = false;         // else a part of A
    bool is_complete = false;    // the thread has waited for it
    unsigned group = 0;          // of the wgmma
    uint64_t place = 0;
};

// A volatile write sets a flag, or writes data. A fence comes between data and the flag that says that they are there: so the
// writes after a fence set flags, until the thread has set one and then reads what others write.
struct FlagWrites {
    bool has_data = false;   // something was accessed since the last fence
    bool after_data = false; // and before it
    bool have_set = false;   // a flag since the last fence
    bool over = false;       // what is written now is data
};

struct Overwritten {   // by one of two writes that are not ordered: an error if it changes the value
    uintptr_t address = 0;
    unsigned bytes = 0;
    bool is_plain = false;
    uint8_t value[16] = {};  // before
};

struct Fiber {
    void* stack_pointer = nullptr;
    State state = State::DONE;
    unsigned thread = 0;
    Index index = {};
    const void* barrier = nullptr;
    unsigned instance = 0;        // of the barrier: each in the text has its own number
    unsigned waits_for = 0;       // lanes, at a barrier of the warp
    unsigned kind = 0;            // of that barrier: WARP_BARRIER, or which exchange
    unsigned clock = 0;
    unsigned known[WARP] = {};    // clocks of the warp's lanes: all before is ordered before what this thread does
    std::shared_ptr<const Knowledge> others;   // of all threads of the block or cluster, after barriers for some of them
    std::shared_ptr<const Knowledge> in_cluster;   // what of it holds in the scope of the cluster, for which not all does; null: all
    std::vector<Acquired> acquired;
    std::vector<Acquired> unfenced;   // what it would know, had there been a fence since it read the flag
    Fence fences[2];   // the last of any scope, and the last for other blocks
    FlagWrites flags;
    Overwritten overwritten;
    Finding lost_update = {};   // of that, for the case
    uint64_t reads_from = 0;   // the place of a volatile read, or 0
    unsigned reads_since = 0;  // the version of the last store there, then
    unsigned active = 0;          // the answer to ASKS
    unsigned present = 0;         // the lanes of the last barrier of the warp: those of its mask that had not ended
    uint64_t given = 0;           // to the other lanes of an exchange
    uint64_t received[WARP] = {};   // from the lanes of the last exchange: others may have gone on
    bool in_block_scope = false;  // whether its atomic is one for other threads of its block only
    uint64_t steps = 0, limit = 0;
    uintptr_t floor = 0;          // below it, the stack is deeper than any thread's of the worker was so far
    unsigned samples = 0, spin_count = 0;
    uint8_t carry = 0;            // of PTX: CARRY_SET and others, or 0 before any instruction has set it
    bool spin_writes = false;     // whether there was a write among those samples
    bool is_preempted = false;    // in state SPINS, and only lets others run
    bool is_straggler = false;    // PREEMPTIVE: it is kept waiting
    unsigned held = 0, holds = 0; // rounds for which it is kept still, and how many times
    uintptr_t spin_at[SPIN_ADDRESSES] = {};
    std::vector<Pending> pending;
    std::vector<size_t> groups;   // ends of committed groups in `pending`
    ProxyFence proxy[2];          // for each space
    Waiting wait;
    LastWait last_wait;
    unsigned polls = 0;           // waits for a phase without success, since the last with success
    unsigned bulk_group = 0;      // committed groups of bulk copies
    unsigned bulk_open = 0;       // bulk copies in none
    uint64_t bulk_at = 0;         // place of the last
    bool at_cluster = false;      // it has arrived at the barrier of the cluster, and not waited
    unsigned cluster_phase = 0;   // number of the cluster's barriers then
    const void* wgmma = nullptr;  // what it multiplies, in an exchange of the warp
    std::vector<InFlight> in_flight;
    bool has_waited_for_launch = false;   // the one before, or is ordered after a thread that has (dependent_launches.h)
    bool has_wgmma_fence = false; // and no write to registers of earlier wgmma since
    bool fenced_since_wait = false;   // whether it came after the last wait for wgmma
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

struct Warp {
    unsigned full = 0;   // clocks that all lanes know of all
    unsigned base = 0;   // what cells' clocks are relative to
    bool synced = false; // whether there was a barrier of the warp in this block
    std::vector<Finding> mixed;   // exchanges for which lanes came from different places
};

struct NamedBarrier {
    unsigned arrived = 0;
    std::vector<unsigned> waiting;    // the threads of those that wait (bar.sync), unlike bar.arrive
    Knowledge known;                  // to those that arrived
    std::vector<Acquired> acquired;   // by them
};

// ---- asynchronous operations ----

// Stands for operations that go on beside the block's threads, and is numbered behind these: copies that complete on one
// barrier, the wgmma of a warpgroup, bulk copies of a thread. Its clock counts them: who knows a clock, knows that all before
// it have completed.
struct Agent {
    unsigned clock = 0;
    unsigned base = 0;   // what cells' clocks are relative to
};
constexpr unsigned AGENTS = 256;

// A range of shared memory that a copy has written.
struct AsyncRange {
    unsigned begin, end;      // offsets
    unsigned clock;           // of its agent
    unsigned thread, rank;    // that issued it
    unsigned site;
};

// What an asynchronous operation reads of shared memory, until a thread waits for it: a bit for each 16 bytes of the window.
struct AsyncReads {
    std::vector<uint64_t> chunks;
    unsigned agent, clock;
    unsigned thread, site;    // of the thread that issued it
};

// An mbarrier in shared memory.
struct Barrier {
    unsigned arrivals = 0;       // that a phase needs
    unsigned pending = 0;        // of the current one
    long long bytes = 0;         // expected less copied
    unsigned phase = 0;          // number of completed ones
    unsigned agent = 0;          // for copies that complete on it
    unsigned thread = 0, epoch = 0, clock = 0;   // of its initialisation
    bool fenced = false;         // whether a fence made that visible
    unsigned fenced_at = 0;      // phase of the cluster's barrier then
    uint64_t made_at = 0, arrived_at = 0, expected_at = 0;   // places: the last of each
    struct Use {
        unsigned epoch, clock;
        uint64_t place;
    };
    std::map<unsigned, Use> uses;   // the last of each thread of the block, in a kernel with mbarrier.inval
    Knowledge known;             // to those that arrived so far
    std::shared_ptr<const Knowledge> done;    // the same when the last phase completed
    bool has_remote = false;     // whether threads of other blocks arrive; then, of `known`:
    Knowledge in_block;          // what arrivals of its own block say
    Knowledge in_cluster;        // and those of scope .cluster
    std::shared_ptr<const Knowledge> done_in_block, done_in_cluster;
    std::vector<AsyncRange> landed, settled;  // by copies of this phase; and of completed ones that nobody waited for
};

// A thread has executed griddepcontrol.wait.
struct LaunchWait {
    unsigned thread, epoch, clock;
};

// What a thread has loaded, and may store to shared memory (origins.h).
struct Loaded {
    uintptr_t address;       // in global memory; 0: elsewhere
    unsigned bytes, left;    // left: a bit for each byte that no store has had
    uint8_t value[16];
};
constexpr unsigned MOST_LOADED = 32;
struct Carried {
    Loaded loaded[MOST_LOADED];
    unsigned count = 0;
    bool has_stored = false;   // since the last load
    uintptr_t offset = 0;      // of the last store, whose bytes nobody has looked at
    unsigned bytes = 0;        // of it; 0: none
    uint8_t before[16] = {};   // what was there
};

// Where TMA took 16 bytes of shared memory from.
struct Source {
    unsigned serial = 0;      // of the copy
    unsigned offset = 0;      // in its box
    uint64_t global = 0;      // address; 0 for a fill
    unsigned site = 0, thread = 0;
};

// A copy in flight.
struct Copy {
    struct Target {
        unsigned rank;
        unsigned phase;          // of its barrier when the copy was issued
        unsigned clock;          // of its agent
    };
    std::vector<Target> targets; // blocks whose shared memory it writes; of a store to global memory, none
    unsigned offset = 0;         // there
    unsigned barrier = 0;        // offset of the barrier
    bool completes = false;      // whether it completes on one
    std::vector<uint8_t> data;
    struct Piece {
        uint8_t* to;
        unsigned from, bytes;
    };
    std::vector<Piece> pieces;   // of `data`, that go to global memory
    struct From {
        unsigned to, offset;     // bytes from the destination's begin, and in the box
        uint64_t global;
    };
    std::vector<From> sources;   // of a TMA load: of each 16 bytes
    unsigned serial = 0;
    unsigned row_bytes = 0, pitch = 0;   // of a box: bytes of a row, and from one to the next
    unsigned bytes = 0;          // that the barrier counts; 0 for those of `data`
    bool arrives = false;        // counts as an arrival instead
    std::shared_ptr<const Knowledge> known;   // to who waits for it, beside itself; null for nothing
    bool reads_block = false;    // of the issuing block's shared memory, until the barrier's phase completes
    unsigned reduction = 0, type = 0;
    unsigned rank = 0, thread = 0, site = 0, group = 0;   // who issued it
    uint64_t place = 0;
};

// An access to this block's shared memory by a thread of another block of the cluster.
struct RemoteAccess {
    unsigned rank, thread, epoch, clock, site;
    bool writes, is_strong;
    unsigned member;   // the thread, or the agent that stands for its copy
};

struct Slot {   // of 64 KiB of shared memory
    uint32_t bytes = 0;                    // in use
    uint32_t alignment = MOST_ALIGNMENT;   // of the array, as declared
    bool is_dynamic = false;
};

struct Fault {   // a signal that ended a thread
    int signal = 0;
    uintptr_t pc = 0, address = 0, frame = 0, stack = 0;
};

// What a worker counts accesses with.
struct Counters {
    std::vector<uint64_t> log;      // lane by lane
    std::vector<SiteCounts> counts;
    std::vector<Pattern> patterns;

    void begin() {
        log.resize(static_cast<size_t>(WARP) * (LOG_ENTRIES + 72));   // not a power of two, so that lanes use different cache sets
        counts.resize(SITES);
        patterns.resize(SITES * 2);
    }
};

struct Worker;

// Blocks that run together and access each other's shared memory: each has a worker, of which one runs at a time (clusters.h).
// A block alone is a cluster, too.
struct Cluster {
    std::vector<Worker*> members;   // by rank
    std::mutex lock;
    std::condition_variable changed;
    unsigned current = 0;           // the rank that runs
    bool ends = false;              // no further cluster runs
    uint64_t number = 0, begun = 0; // of the cluster that runs, in the order in which they begin; how many were begun
    unsigned arrived_workers = 0;   // at its begin or end
    std::vector<Copy> copies;       // in flight, in the order of their issue
    unsigned serial = 0;            // of the last copy
    uint64_t progress = 0, seen_progress = 0;
    unsigned failures = 0;          // how many times all waits failed, without progress since
    uint64_t random = 1;
    // Its barrier.
    unsigned arrived = 0, phase = 0;
    unsigned ended = 0, ended_after = 0;   // threads that count as arrived, and those that will from the next phase on
    Knowledge known;
    std::shared_ptr<const Knowledge> done;
};

// Of a warp: its wgmma.
struct Products {
    unsigned committed = 0;                  // groups
    unsigned settled = 0;                    // groups that a lane has waited for
    struct Group {
        unsigned count;                      // of wgmma
        uint64_t last;                       // place of the last
    };
    std::vector<Group> of_groups;
    unsigned open = 0;                       // wgmma since the last commit
    uint64_t issued_at = 0;                  // place of the last
    struct Sums {                            // of a wgmma in flight, as the next adds to them
        std::vector<uintptr_t> places;       // of the first lane's registers
        std::vector<uint32_t> values;        // by lane and register
        std::vector<uint32_t*> to;           // by lane and register
        unsigned registers, group = 0;
        uint32_t delivered = 0;              // lanes that have waited
        std::vector<std::vector<unsigned>> chunks = {};   // along k, of the last wgmma's operands in shared memory (operands.h)
        uint64_t place = 0;                  // of that
    };
    std::vector<Sums> sums;
};

struct Worker {
    Run* run = nullptr;
    Fiber* current = nullptr;
    void* scheduler = nullptr;    // stack pointer
    uint8_t* stacks = nullptr;
    std::vector<Fiber> fibers;
    Index block = {};
    uint64_t block_number = 0;
    uint64_t earlier = 0;         // the number of blocks that began before this one
    uint64_t steps = 0, most_steps = 0;
    bool aborted = false;

    uintptr_t shared_base = 0;
    size_t shared_span = 0;
    pthread_t thread = {};
    Fault fault;
    std::vector<Warp> warps;
    NamedBarrier named[16];
    std::vector<Acquired> acquired;   // by threads of the block before its last barrier
    bool acquires = false;            // whether any thread of the block acquired something
    uint64_t spin_rounds = 0, seen_finished = 0;
    uint64_t seen = 0, seen_at = 0;   // by tiledmm_watch: the state, and when it was seen first, in milliseconds
    std::atomic<unsigned> ends{0};    // the finding with which its current thread is to end
    std::vector<Slot> slots;
    unsigned granule_shift = 2;     // a cell covers 4 bytes until a kernel accesses fewer
    std::vector<Cell> reads, more_reads, writes;
    std::unordered_map<size_t, std::vector<LaneReaders>> readers;   // further ones, by cell; of this epoch
    uint64_t epoch = 1, first_epoch = 1;

    Counters counters;
    unsigned logged[WARP] = {};
    Joiner joiner;
    unsigned votes[2] = {}, vote_epoch = 0;
    uint64_t barriers = 0, barriers_before = 0;   // the second: when this block began
    uint64_t idle_barriers = 0, idle_exchanges = 0;   // since the last write of a thread of the block
    uint64_t random = 1;
    bool hands_over = false;      // to another worker, as soon as its thread has left
    std::condition_variable turn;
    bool runs = false;            // COOPERATIVE: whether it has one of the cores
    bool passes = false;          // and whether the barrier of the grid at which it waits has been passed
    bool synchronizes = false;    // whether threads used atomics, volatile accesses, fences or named barriers
    uint64_t ticks = 0, seen_steps = 0;   // of the clock; steps of the thread that last looked at it
    Cluster* cluster = nullptr;
    Cluster own_cluster;          // if it is alone
    unsigned rank = 0;            // in its cluster
    unsigned members = 0;         // of the block in Knowledge::clocks: threads of whole warps, and agents
    std::vector<unsigned> thread_numbers;   // all, from 0 on
    bool is_blocked = false;      // all its threads wait for others or for copies
    bool is_done = false;         // its block has ended
    bool is_asynchronous = false; // whether the block used asynchronous instructions
    bool has_others = false;      // whether any thread of the block has Fiber::others
    std::vector<Agent> agents;
    std::unordered_map<uint64_t, unsigned> agent_of;    // by what it stands for
    std::map<unsigned, Barrier> mbarriers;              // by offset in shared memory
    std::vector<AsyncReads> async_reads;                // that nobody has waited for
    std::unordered_map<unsigned, unsigned> usual;          // of a warp's agent: its warpgroup's (asynchronous_memory.h)
    std::unordered_map<unsigned, unsigned> agent_threads;  // a thread that issued what an agent stands for
    std::vector<Source> sources;                           // of each 16 bytes of the window
    std::vector<uintptr_t> origins;                        // of each byte of the window: its address in global memory, or 0
    std::vector<Carried> carried;                          // by thread
    std::vector<LaunchWait> launch_waits;
    std::vector<Products> products;                     // by warp
    std::vector<unsigned> registers;                    // of each warp's threads (setmaxnreg)
    unsigned free_registers = 0;                        // of the block's, that were given back
    std::unordered_map<size_t, std::vector<RemoteAccess>> remote;   // by cell
    std::map<std::pair<unsigned, unsigned>, RemoteAccess> last_remote;   // by rank and thread
    Knowledge at_end;             // what threads knew that have ended
    std::vector<unsigned> window; // for each slot, its address in shared memory's window (shared_window.h)
    std::vector<unsigned> pages;  // for each page of the window, the offset of what is there

    std::vector<TraceEvent> trace;
    uint64_t deepest = DEEP_BYTES, deepest_pc = 0;   // bytes of stack of a thread at an access, and the access
};

// To whom a release says something: after a fence for the block alone to that block, after another to all, and UNFENCED to
// nobody, because there was no fence.
enum Audience : unsigned { OWN_BLOCK, ALL_BLOCKS, UNFENCED };

// What threads released at an address: a write to it after a fence says that all before the fence happened. A store says what
// its thread released, and an atomic also what was released there before it, back to the last store.
struct Sync {
    struct Time {
        unsigned epoch, clock;
        unsigned since, version;   // it holds for all that was released at the key between them
    };
    struct Known {
        std::shared_ptr<const std::vector<Acquired>> what;
        unsigned version, block;
        Audience audience;
    };
    std::unordered_map<uint64_t, std::vector<Time>> blocks;     // all that a block did before an epoch
    std::unordered_map<uint64_t, std::vector<Time>> threads;    // all that a thread did before a clock of an epoch
    std::vector<Known> before;                                  // what the releasing threads knew
    unsigned version = 0, since = 0;   // of the last release, and of the last store
};

// Threads that run in turn: of the workers of a launch, one at a time, so that a seed gives one order of all that happens.
struct Turns {
    std::mutex lock;
    std::condition_variable begun;
    std::vector<Worker*> workers;
    Worker* current = nullptr;
    uint64_t random = 1;
    unsigned straggler = 0;
    unsigned preemptions = 0, changes = 0;   // how many there were
    std::atomic<unsigned> waits{0};   // looks at threads that spin since any thread got on
};

// The blocks of a cooperative launch, all of which are resident (grid_barriers.h). Guarded by Turns::lock.
struct Grid {
    std::vector<Worker*> queue;        // that wait for a core, in this order
    std::vector<Worker*> at_barrier;
    std::vector<Counters> counters;    // of cores on which no worker runs
    std::vector<unsigned> epochs;      // by block: its epoch after the last barrier of the grid
    unsigned cores = 0;                // on which no worker runs
    uint64_t begun = 0, ended = 0;     // workers
    uint64_t first_ended = 0;          // the block that ended first
};

struct Allocation {
    uint64_t begin, bytes, place, freed_at;   // the places where it was made and freed; 0: it was not freed
    unsigned block, thread;                   // that made it, or that freed it
};

struct Heap {   // of malloc (heap.h)
    std::mutex lock;
    static constexpr uintptr_t NOWHERE = 1ull << 63;   // no address of a process: nothing was allocated
    std::atomic<uintptr_t> begin{NOWHERE};
    uintptr_t next = 0;                // behind it, nothing ever was
    uint64_t used = 0;
    uint8_t* marks = nullptr;          // for each 16 bytes
    uint64_t* stamps = nullptr;
    Operand operand = {};
    std::map<uintptr_t, Allocation> all;           // those that were freed, too
    std::multimap<uint64_t, uintptr_t> freed;      // by size
};

struct ReaderShard {
    std::mutex lock;
    std::unordered_map<const uint64_t*, std::vector<StampReaders>> readers;
    size_t count = 0;
};
constexpr unsigned READER_SHARDS = 64;
constexpr size_t MOST_READERS = 1 << 16;   // of each

constexpr uint64_t EVERYTHING_RUNS = UINT64_MAX;

struct Run {
    Launch launch;
    Index grid, block;
    unsigned threads, warps;
    uint64_t blocks;
    std::atomic<uint64_t> next{0}, finished{0};
    // Blocks from this number on end, in the order in which blocks begin; earlier ones run to their end, so that the same findings
    // come first however many workers there are.
    std::atomic<uint64_t> ends_from{EVERYTHING_RUNS}, first_failed{EVERYTHING_RUNS};   // the second: the block that ended the launch
    uint64_t ran_until = 0;   // in milliseconds, when the watch last saw that no block was to end
    std::mutex lock;
    std::vector<Finding> findings;
    std::unordered_map<uint64_t, size_t> finding_index;
    std::vector<SiteCounts> counts;   // by site; merged when a worker ends
    std::vector<Worker*> workers;
    std::atomic<bool> released{false};             // whether any thread released something
    std::unordered_map<uintptr_t, Sync> syncs;     // by place, see place_of
    std::atomic<bool> timed_out{false};
    std::map<std::tuple<uint64_t, unsigned, uintptr_t>, std::vector<Finding>> deferred;   // by block and thread, epoch, and element
    std::atomic<bool> defers{false};
    std::set<uint64_t> guards, polls;   // places of plain reads: those whose thread goes on to an atomic there, and those of loops that wait
    std::atomic<bool> synchronizes{false};
    Turns turns;
    Grid resident;
    std::vector<std::unique_ptr<Cluster>> clusters;   // that are being made up of workers, or run
    Heap heap;
    ReaderShard shards[READER_SHARDS];
    std::string output;
    std::vector<TraceEvent> trace;
    uint64_t barriers = 0, steps = 0, most_steps = 0;
    uint64_t deepest = 0, deepest_pc = 0;
    Site sites[SITES];
};

ALWAYS_INLINE bool is_stopping(const Run& run) { return run.ends_from.load(std::memory_order_relaxed) != EVERYTHING_RUNS; }
ALWAYS_INLINE bool is_stopped(const Worker& w) { return w.earlier >= w.run->ends_from.load(std::memory_order_relaxed); }
inline void stop_all(Run& run) { run.ends_from = 0; }

// The current block ends the launch. Blocks that run in turn, or wait for each other, end together.
inline void stop_from_here(Worker& w) {
    Run& run = *w.run;
    if (is_stopped(w)) return;
    if (run.launch.order == PREEMPTIVE || run.launch.cooperative) return stop_all(run);
    for (auto* number : {&run.ends_from, &run.first_failed}) {
        uint64_t known = *number;
        while (w.earlier < known && !number->compare_exchange_weak(known, w.earlier)) {
        }
    }
}

// Whether events of the current block are recorded in this detail.
ALWAYS_INLINE bool is_traced(const Worker& w, Traced detail) {
    return w.run->launch.trace >= detail && w.block_number == w.run->launch.traced_block;
}

// Small enough for the static storage that a dynamically loaded library may have. Without C++'s thread_local, each access of
// which from another translation unit would call a function.
extern __attribute__((tls_model("initial-exec"))) __thread Worker* worker;
