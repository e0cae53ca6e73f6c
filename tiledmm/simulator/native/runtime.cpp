// Runs the blocks of a launch, with threads as fibers, and checks and counts each access of instrumented code.
//
// Each worker (a thread of the operating system) runs one block after the other. The block's threads are fibers that
// run until they reach a barrier or end, warp by warp, so that the accesses of a warp's lanes between two barriers can be
// combined. Kernels are compiled with -fsanitize=thread, whose callbacks are at the end of this file: they get each
// access before it happens, with its address and the place in the code.
//
// Depends on: checks.h, counting.h, fibers.h, state.h
#include <sys/mman.h>

#include "checks.h"
#include "counting.h"
#include "fibers.h"
#include "state.h"

// ---- accesses ----

ALWAYS_INLINE void record(Worker& w, uintptr_t address, unsigned site, Space space) {
    const unsigned lane = w.current->thread % WARP;
    w.log[static_cast<size_t>(lane) * (LOG_ENTRIES + 72) + w.logged[lane]] =
        static_cast<uint64_t>(address) << 16 | site << 1 | space;
    if (++w.logged[lane] == LOG_ENTRIES) leave(w, State::PAUSED);
}

[[gnu::noinline]] void report_and_abort(Worker& w, FindingKind kind, const void* place, bool writes, uintptr_t address, unsigned bytes) {
    report(w, kind, reinterpret_cast<uint64_t>(place), writes, address, bytes);
    abort_launch(w);
}

ALWAYS_INLINE void on_access(uintptr_t address, unsigned bytes, bool writes, unsigned kind, const void* place, bool aligned,
                         bool in_flight = false) {
    Worker* const current = worker;
    if (!current || !current->current) return;
    Worker& w = *current;
    Run& run = *w.run;
    const uintptr_t offset = address - w.shared_base;
    const bool shared = offset < w.shared_span;
    if (!shared && in_stacks(w, address)) return;
    if (run.launch.max_steps && ++w.current->steps > run.launch.max_steps) report_and_abort(w, RUNAWAY, place, writes, address, bytes);
    if (run.stop.load(std::memory_order_relaxed)) abort_launch(w);
    if (shared) {
        if ((offset & 0xffff) + bytes > w.limits[offset >> SLOT_BITS])
            report_and_abort(w, OUTSIDE_SHARED, place, writes, address, bytes);
        if (aligned && address & (bytes - 1)) report_and_abort(w, MISALIGNED, place, writes, address, bytes);
        const unsigned site = find_site(run, place, bytes, kind);
        if (run.launch.checks) check_shared(w, offset, bytes, writes, site, in_flight);
        if (run.launch.counts) record(w, address, site, SHARED);
        return;
    }
    const Operand* operand = nullptr;
    const Reach found = reach(run, address, bytes, writes, &operand);
    if (found != Reach::INSIDE) {
        if (found == Reach::OUTSIDE && is_constant(w, address)) return;
        report_and_abort(w, found == Reach::OUTSIDE ? OUTSIDE_GLOBAL : WRITES_OPERAND, place, writes, address, bytes);
    }
    if (aligned && address & (bytes - 1)) report_and_abort(w, MISALIGNED, place, writes, address, bytes);
    const unsigned site = find_site(run, place, bytes, kind);
    if (run.launch.checks && operand->cells) check_result(w, *operand, address, bytes, writes, site);
    if (run.launch.counts) record(w, address, site, GLOBAL);
}

// ---- blocks ----

uint64_t next_random(Worker& w) {   // xorshift64*
    w.random ^= w.random >> 12;
    w.random ^= w.random << 25;
    w.random ^= w.random >> 27;
    return w.random * 0x2545f4914f6cdd1dull;
}

void arrange(Worker& w, unsigned* order, unsigned count) {
    for (unsigned i = 0; i < count; ++i) order[i] = w.run->launch.order == REVERSE ? count - 1 - i : i;
    if (w.run->launch.order == RANDOM)
        for (unsigned i = count; i > 1; --i) {
            const unsigned j = next_random(w) % i;
            const unsigned last = order[i - 1];
            order[i - 1] = order[j];
            order[j] = last;
        }
}

Other as_other(const Worker& w, const Fiber& fiber) {
    return {reinterpret_cast<uint64_t>(fiber.barrier), w.block_number, fiber.thread, false};
}

// Runs the lanes of a warp until each is at a barrier of the block or has ended.
void run_warp(Worker& w, unsigned warp) {
    Run& run = *w.run;
    const unsigned first = warp * WARP;
    const unsigned lanes = run.threads - first < WARP ? run.threads - first : WARP;
    unsigned order[WARP];
    arrange(w, order, lanes);
    for (unsigned lane = 0; lane < lanes; ++lane) w.fibers[first + lane].warp_epoch = 0;
    for (;;) {
        bool ran = false;
        for (unsigned i = 0; i < lanes; ++i) {
            Fiber& fiber = w.fibers[first + order[i]];
            if (fiber.state != State::READY) continue;
            ran = true;
            w.current = &fiber;
            tiledmm_switch(&w.scheduler, fiber.stack_pointer);
            w.current = nullptr;
            if (w.aborted) return;
        }
        if (ran) continue;
        if (run.launch.counts) flush(w, warp);
        bool paused = false;
        for (unsigned i = 0; i < lanes; ++i) {
            Fiber& fiber = w.fibers[first + i];
            if (fiber.state != State::PAUSED) continue;
            fiber.state = State::READY;
            paused = true;
        }
        if (!paused) break;
    }
    for (unsigned i = 0; i < lanes; ++i) {
        Fiber& fiber = w.fibers[first + i];
        if (fiber.state != State::AT_WARP) continue;
        // Lanes of its mask that have ended, or wait at a barrier of the block.
        Other other;
        for (unsigned j = 0; j < lanes; ++j)
            if (fiber.waits_for >> j & 1 && w.fibers[first + j].state != State::AT_WARP) other = as_other(w, w.fibers[first + j]);
        w.current = &fiber;
        report(w, WARP_NOT_REACHED, reinterpret_cast<uint64_t>(fiber.barrier), false, 0, 0, other);
        w.current = nullptr;
        w.aborted = true;
        run.stop = true;
        return;
    }
}

void run_block(Worker& w, uint64_t number) {
    Run& run = *w.run;
    w.block_number = number;
    w.block = index_of(run, number);
    if (w.epoch >> 25) {   // epochs of 26 bits wrap around
        for (auto* cells : {&w.reads, &w.more_reads, &w.writes}) std::fill(cells->begin(), cells->end(), 0);
        w.epoch = 0;
    }
    w.first_epoch = ++w.epoch;
    w.barriers_before = w.barriers;
    for (unsigned i = 0; i < run.threads; ++i) {
        Fiber& fiber = w.fibers[i];
        fiber.thread = i;
        fiber.index = thread_index(run, i);
        fiber.state = State::READY;
        fiber.barrier = nullptr;
        fiber.exchanges = 0;
        fiber.steps = 0;
        fiber.pending.clear();
        fiber.groups.clear();
        fiber.stack_pointer = new_stack(w.stacks + (i + 1) * STACK_BYTES, fiber_main);
    }
    unsigned order[MAX_THREADS / WARP];
    for (;;) {
        arrange(w, order, run.warps);
        for (unsigned i = 0; i < run.warps; ++i) {
            run_warp(w, order[i]);
            if (w.aborted) return;
        }
        const Fiber *waits = nullptr, *ended = nullptr, *elsewhere = nullptr;
        for (unsigned i = 0; i < run.threads; ++i) {
            Fiber& fiber = w.fibers[i];
            if (fiber.state == State::DONE)
                ended = &fiber;
            else if (!waits)
                waits = &fiber;
            else if (fiber.barrier != waits->barrier)
                elsewhere = &fiber;
        }
        if (!waits) break;
        if (ended || elsewhere) {
            w.current = const_cast<Fiber*>(waits);
            report(w, BARRIER_NOT_REACHED, reinterpret_cast<uint64_t>(waits->barrier), false, 0, 0,
                   as_other(w, ended ? *ended : *elsewhere));
            w.current = nullptr;
        }
        // On a GPU threads that have ended count as arrived.
        if (is_traced(w, ACCESSES))
            w.trace.push_back({reinterpret_cast<uint64_t>(waits->barrier), 0, w.barriers - w.barriers_before, 0, 0, BARRIER, SHARED});
        ++w.barriers;
        if (run.launch.counts) ++w.counts[find_site(run, waits->barrier, 0, LOAD)].barriers;
        ++w.epoch;
        w.votes[++w.vote_epoch % 2] = 0;
        for (unsigned i = 0; i < run.threads; ++i)
            if (w.fibers[i].state == State::AT_BARRIER) w.fibers[i].state = State::READY;
        if (run.stop.load(std::memory_order_relaxed)) {
            w.aborted = true;
            return;
        }
    }
    ++w.epoch;
}

void merge(Counts& sum, const Counts& more) {
    sum.requests += more.requests;
    sum.lanes += more.lanes;
    sum.bytes += more.bytes;
    sum.units += more.units;
    sum.ideal += more.ideal;
}

void* map_pages(size_t bytes) {
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? nullptr : pages;
}

// ---- functions that kernels call ----

#pragma GCC visibility push(default)
extern "C" {

Index tiledmm_thread_index() { return worker->current->index; }
Index tiledmm_block_index() { return worker->block; }
Index tiledmm_block_size() { return worker->run->block; }
Index tiledmm_grid_size() { return worker->run->grid; }
unsigned tiledmm_lane() { return worker->current->thread % WARP; }

void tiledmm_sync_threads() {
    Worker& w = *worker;
    w.current->barrier = CALLER;
    leave(w, State::AT_BARRIER);
}

unsigned tiledmm_sync_threads_count(bool predicate) {
    Worker& w = *worker;
    const unsigned epoch = w.vote_epoch;   // the barrier clears the other sum
    w.votes[epoch % 2] += predicate;
    w.current->barrier = CALLER;
    leave(w, State::AT_BARRIER);
    return worker->votes[epoch % 2];
}

static void sync_warp(unsigned mask, const void* place, bool orders_memory) {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    const unsigned first = fiber.thread / WARP * WARP;
    const unsigned lanes = w.run->threads - first < WARP ? w.run->threads - first : WARP;
    mask &= lanes == WARP ? ~0u : (1u << lanes) - 1;
    mask |= 1u << fiber.thread % WARP;
    fiber.barrier = place;
    fiber.waits_for = mask;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        const Fiber& other = w.fibers[first + lane];
        if (mask >> lane & 1 && &other != &fiber && other.state != State::AT_WARP) {
            leave(w, State::AT_WARP);
            return;
        }
    }
    // The last lane releases the others, and orders their accesses before the barrier before those after it.
    unsigned warp_epoch = 0;
    for (unsigned lane = 0; lane < lanes; ++lane)
        if (mask >> lane & 1 && w.fibers[first + lane].warp_epoch > warp_epoch)
            warp_epoch = w.fibers[first + lane].warp_epoch;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        w.fibers[first + lane].state = State::READY;
        w.fibers[first + lane].warp_epoch = warp_epoch + orders_memory;
    }
}

void tiledmm_sync_warp(unsigned mask) { sync_warp(mask, CALLER, true); }

void tiledmm_exchange(unsigned mask, unsigned long long value) {
    Fiber& fiber = *worker->current;
    fiber.given[++fiber.exchanges % 2] = value;
    sync_warp(mask, CALLER, false);
}

unsigned long long tiledmm_exchanged(unsigned lane) {
    Worker& w = *worker;
    const unsigned turn = w.current->exchanges % 2;
    const unsigned thread = w.current->thread / WARP * WARP + lane;
    return thread < w.run->threads ? w.fibers[thread].given[turn] : 0;
}

void tiledmm_trap() {
    report(*worker, TRAPPED, reinterpret_cast<uint64_t>(CALLER), false, 0, 0);
    abort_launch(*worker);
}

// ---- cp.async ----

void tiledmm_copy_async(void* shared, const void* global, unsigned bytes, unsigned source_bytes) {
    Worker& w = *worker;
    const Launch& launch = w.run->launch;
    if (!launch.checks && !launch.counts) {
        std::memcpy(shared, global, source_bytes);
        std::memset(static_cast<uint8_t*>(shared) + source_bytes, 0, bytes - source_bytes);
        return;
    }
    const void* const place = CALLER;
    if (source_bytes) on_access(reinterpret_cast<uintptr_t>(global), source_bytes, false, COPY, place, true);
    on_access(reinterpret_cast<uintptr_t>(shared), bytes, true, COPY, place, true, true);
    Pending copy = {static_cast<uint8_t*>(shared), bytes, find_site(*w.run, place, bytes, COPY), {}};
    std::memcpy(copy.data, global, source_bytes);
    w.current->pending.push_back(copy);
}

void tiledmm_commit_copies() { worker->current->groups.push_back(worker->current->pending.size()); }

// Copies the data to shared memory now, no sooner: earlier reads get the old data.
void tiledmm_wait_for_copies(unsigned pending) {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    const size_t done = pending ? (fiber.groups.size() > pending ? fiber.groups[fiber.groups.size() - pending - 1] : 0)
                                : fiber.pending.size();
    for (size_t i = 0; i < done; ++i) {
        const Pending& copy = fiber.pending[i];
        std::memcpy(copy.shared, copy.data, copy.bytes);
        if (!w.run->launch.checks) continue;
        const size_t offset = reinterpret_cast<uintptr_t>(copy.shared) - w.shared_base;
        const Cell mine = make_cell(w.epoch, fiber.warp_epoch, fiber.thread, copy.site);
        for (size_t at = offset >> w.granule_shift; at < (offset + copy.bytes) >> w.granule_shift; ++at) w.writes[at] = mine;
    }
    fiber.pending.erase(fiber.pending.begin(), fiber.pending.begin() + static_cast<std::ptrdiff_t>(done));
    std::vector<size_t> left;
    for (const size_t end : fiber.groups)
        if (end > done) left.push_back(end - done);
    fiber.groups = left;
}

// ---- atomics ----

int tiledmm_atomic_min(int* at, int value) {
    const Launch& launch = worker->run->launch;
    if (launch.checks || launch.counts) on_access(reinterpret_cast<uintptr_t>(at), sizeof(int), true, STORE, CALLER, true);
    int old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (value < old && !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}

unsigned tiledmm_shared_offset(const void* shared) {
    return static_cast<unsigned>(reinterpret_cast<uintptr_t>(shared) - worker->shared_base);
}

void tiledmm_count_flops(unsigned operations) {
    Worker& w = *worker;
    if (!w.run->launch.counts) return;
    const unsigned site = find_site(*w.run, CALLER, 0, LOAD);
    w.counts[site].flops += operations;
    if (is_traced(w, AND_ARITHMETIC)) record(w, 0, site, SHARED);
}

// ---- functions that Python calls ----

Run* tiledmm_begin(const Launch* launch) {
    Run* run = new Run{};
    run->launch = *launch;
    run->grid = {launch->grid[0], launch->grid[1], launch->grid[2]};
    run->block = {launch->block[0], launch->block[1], launch->block[2]};
    run->threads = run->block.x * run->block.y * run->block.z;
    run->warps = (run->threads + WARP - 1) / WARP;
    run->blocks = static_cast<uint64_t>(run->grid.x) * run->grid.y * run->grid.z;
    run->counts.resize(SITES);
    return run;
}

int tiledmm_work(Run* run) {
    const Launch& launch = run->launch;
    Worker w;
    w.run = run;
    w.stacks = static_cast<uint8_t*>(map_pages(MAX_THREADS * STACK_BYTES));
    if (!w.stacks) return 1;
    w.fibers.resize(run->threads);
    if (launch.array_count) {
        const auto anchor = reinterpret_cast<uintptr_t>(launch.anchor());
        uintptr_t first = UINTPTR_MAX, last = 0;
        for (unsigned i = 0; i < launch.array_count; ++i) {
            const uintptr_t begin = anchor + static_cast<uintptr_t>(launch.arrays[i].from_anchor);
            first = std::min(first, begin);
            last = std::max<uintptr_t>(last, begin + launch.arrays[i].bytes);
        }
        w.shared_base = first;
        w.shared_span = (last - first + 0xffff) >> SLOT_BITS << SLOT_BITS;
        w.limits.resize(w.shared_span >> SLOT_BITS);
        for (unsigned i = 0; i < launch.array_count; ++i) {
            size_t slot = (anchor + static_cast<uintptr_t>(launch.arrays[i].from_anchor) - first) >> SLOT_BITS;
            for (uint64_t left = launch.arrays[i].bytes; left > 0; ++slot) {
                w.limits[slot] = static_cast<uint32_t>(std::min<uint64_t>(left, 1u << SLOT_BITS));
                left -= w.limits[slot];
            }
        }
    }
    if (launch.checks) {
        for (auto* cells : {&w.reads, &w.more_reads, &w.writes}) cells->resize(w.shared_span >> w.granule_shift);
    }
    if (launch.counts) {
        w.log.resize(static_cast<size_t>(WARP) * (LOG_ENTRIES + 72));   // not a power of two, so that lanes use different cache sets
        w.counts.resize(SITES);
        w.patterns.resize(SITES * 2);
    }
    worker = &w;
    while (!run->stop.load(std::memory_order_relaxed)) {
        const uint64_t block = run->next.fetch_add(1);
        if (block >= run->blocks) break;
        w.random = (launch.seed + 1) * 0x9e3779b97f4a7c15ull ^ (block + 1) * 0xbf58476d1ce4e5b9ull;
        run_block(w, block);
        run->finished.fetch_add(1);
    }
    worker = nullptr;
    munmap(w.stacks, MAX_THREADS * STACK_BYTES);
    std::lock_guard<std::mutex> guard(run->lock);
    run->barriers += w.barriers;
    run->trace.insert(run->trace.end(), w.trace.begin(), w.trace.end());
    for (size_t i = 0; i < w.counts.size(); ++i) {
        SiteCounts& sum = run->counts[i];
        sum.flops += w.counts[i].flops;
        sum.barriers += w.counts[i].barriers;
        for (int space = 0; space < 2; ++space) {
            merge(sum.source[space], w.counts[i].source[space]);
            merge(sum.sass[space], w.counts[i].sass[space]);
        }
    }
    return 0;
}

uint64_t tiledmm_blocks_done(const Run* run) { return run->finished; }
void tiledmm_stop(Run* run) { run->stop = true; }
uint64_t tiledmm_barriers(const Run* run) { return run->barriers; }
uint64_t tiledmm_place(const Run* run, uint64_t site) { return run->sites[site].pc; }

uint64_t tiledmm_findings(const Run* run, const Finding** findings) {
    *findings = run->findings.data();
    return run->findings.size();
}

uint64_t tiledmm_counts(const Run* run, const SiteCounts** counts) {
    auto& all = const_cast<Run*>(run)->counts;
    size_t used = 0;
    for (size_t i = 0; i < all.size(); ++i) {
        if (!run->sites[i].pc) continue;
        SiteCounts each = all[i];
        each.pc = run->sites[i].pc;
        each.bytes = run->sites[i].bytes;
        each.kind = run->sites[i].kind;
        all[used++] = each;
    }
    all.resize(used);
    *counts = all.data();
    return used;
}

uint64_t tiledmm_trace(const Run* run, const TraceEvent** events) {
    *events = run->trace.data();
    return run->trace.size();
}

void tiledmm_end(Run* run) { delete run; }

void* tiledmm_reserve(uint64_t count, const uint64_t* bytes, uint64_t guard, uint64_t* addresses, uint64_t* reserved) {
    constexpr uint64_t PAGE = 65536;   // the largest page size there is
    guard = (guard + PAGE - 1) / PAGE * PAGE;
    uint64_t total = guard;
    for (uint64_t i = 0; i < count; ++i) total += (bytes[i] + PAGE) / PAGE * PAGE + guard;
    void* const memory = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    *reserved = total;
    uint8_t* at = static_cast<uint8_t*>(memory) + guard;
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t size = (bytes[i] + PAGE) / PAGE * PAGE;
        if (mprotect(at, size, PROT_READ | PROT_WRITE)) {
            munmap(memory, total);
            return nullptr;
        }
        addresses[i] = reinterpret_cast<uint64_t>(at);
        at += size + guard;
    }
    return memory;
}

void tiledmm_release(void* memory, uint64_t reserved) { munmap(memory, reserved); }

// ---- callbacks of -fsanitize=thread ----

#define ACCESS(bytes)                                                                                                       \
    void __tsan_read##bytes(void* at) { on_access(reinterpret_cast<uintptr_t>(at), bytes, false, LOAD, CALLER, true); }         \
    void __tsan_write##bytes(void* at) { on_access(reinterpret_cast<uintptr_t>(at), bytes, true, STORE, CALLER, true); }        \
    void __tsan_volatile_read##bytes(void* at) { on_access(reinterpret_cast<uintptr_t>(at), bytes, false, LOAD, CALLER, true); } \
    void __tsan_volatile_write##bytes(void* at) { on_access(reinterpret_cast<uintptr_t>(at), bytes, true, STORE, CALLER, true); } \
    void __tsan_unaligned_read##bytes(void* at) { on_access(reinterpret_cast<uintptr_t>(at), bytes, false, LOAD, CALLER, false); } \
    void __tsan_unaligned_write##bytes(void* at) { on_access(reinterpret_cast<uintptr_t>(at), bytes, true, STORE, CALLER, false); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

static void on_range(void* at, uint64_t bytes, bool writes, const void* place) {
    auto address = reinterpret_cast<uintptr_t>(at);
    while (bytes > 0) {   // in accesses as a GPU would make them
        unsigned size = 16;
        while (size > bytes || address % size) size /= 2;
        on_access(address, size, writes, writes ? STORE : LOAD, place, true);
        address += size;
        bytes -= size;
    }
}

void __tsan_read_range(void* at, uint64_t bytes) { on_range(at, bytes, false, CALLER); }
void __tsan_write_range(void* at, uint64_t bytes) { on_range(at, bytes, true, CALLER); }
void* __tsan_memcpy(void* to, const void* from, uint64_t bytes) {
    on_range(const_cast<void*>(from), bytes, false, CALLER);
    on_range(to, bytes, true, CALLER);
    return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, uint64_t bytes) {
    on_range(const_cast<void*>(from), bytes, false, CALLER);
    on_range(to, bytes, true, CALLER);
    return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, uint64_t bytes) {
    on_range(to, bytes, true, CALLER);
    return std::memset(to, value, bytes);
}
// ---- callbacks of -fsanitize=bounds ----

struct ArrayType {
    uint16_t kind, info;
    char name[1];   // such as 'float [16][17]'
};

struct Subscript {
    const char* file;
    uint32_t line, column;
    const ArrayType* array;
    const ArrayType* index;
};

[[noreturn]] void __ubsan_handle_out_of_bounds_abort(const Subscript* subscript, uint64_t index) {
    const char* extent = std::strchr(subscript->array->name, '[');
    const auto elements = static_cast<unsigned>(extent ? std::strtoul(extent + 1, nullptr, 10) : 0);
    if (!worker || !worker->current) std::abort();
    report(*worker, OUTSIDE_ARRAY, reinterpret_cast<uint64_t>(CALLER), false, index, elements);
    abort_launch(*worker);
}

// ---- other symbols of instrumented code ----

void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

}   // extern "C"
#pragma GCC visibility pop
