// Runs the blocks of a launch, with threads as fibers: what Python calls, and what kernels call but for accesses.
//
// Each worker (a thread of the operating system) runs one block after the other. The block's threads are fibers that
// run until they reach a barrier or end, warp by warp, so that the accesses of a warp's lanes between two barriers can be
// combined. Each access of instrumented code is checked and counted (checks.cpp) before it happens.
//
// Depends on: checks.h, clusters.h, counting.h, dependent_launches.h, faults.h, fibers.h, grid_barriers.h, guards.h, heap.h, ordering.h, origins.h, releases.h, schedule.h, shared_window.h, stacks.h, state.h, warp_barriers.h
#include <cstdarg>
#include <ctime>
#include <sys/mman.h>

#include "checks.h"
#include "clusters.h"
#include "counting.h"
#include "dependent_launches.h"
#include "faults.h"
#include "fibers.h"
#include "grid_barriers.h"
#include "guards.h"
#include "heap.h"
#include "ordering.h"
#include "origins.h"
#include "releases.h"
#include "schedule.h"
#include "shared_window.h"
#include "stacks.h"
#include "state.h"
#include "warp_barriers.h"

__thread Worker* worker = nullptr;

// ---- blocks ----

// Whether the kernel was built with calls of the runtime at its accesses.
bool sees_accesses(const Launch& launch) { return launch.checks || launch.counts || launch.guarded; }

void arrange(Worker& w, unsigned* order, unsigned count) {
    const uint32_t how = w.run->launch.order;
    const bool is_reverse = how == REVERSE || (how == PREEMPTIVE && style_of(*w.run) == ROUND_ROBIN);
    for (unsigned i = 0; i < count; ++i) order[i] = is_reverse ? count - 1 - i : i;
    if (how == RANDOM || (how == PREEMPTIVE && !is_reverse))
        for (unsigned i = count; i > 1; --i) {
            const unsigned j = next_random(w.random) % i;
            const unsigned last = order[i - 1];
            order[i - 1] = order[j];
            order[j] = last;
        }
}

// Reports what ended the current thread, and stops the launch.
void end_with_fault(Worker& w) {
    faults::report_fault(w);
    w.current = nullptr;
    w.aborted = true;
    stop_from_here(w);
}

// Copies of a thread that has ended: those in no group are an error. Others nobody can have used: that is one already.
void check_copies(Worker& w, Fiber& fiber) {
    const size_t committed = fiber.groups.empty() ? 0 : fiber.groups.back();
    if (fiber.pending.size() == committed || !w.run->launch.checks) return;
    w.current = &fiber;
    const Pending& copy = fiber.pending[committed];
    Finding finding = make_finding(w, ASYNC_NOT_WAITED, pc_of(*w.run, copy.site), true, reinterpret_cast<uintptr_t>(copy.shared),
                                   copy.bytes, {0, w.block_number, fiber.thread, true});
    add_wait(finding, fiber, reinterpret_cast<uintptr_t>(copy.shared));
    report(w, finding);
    w.current = nullptr;
    fiber.pending.clear();
}

// Of the lanes that ask which lanes run with them, releases those that ask at one place: they are the answer.
bool answer(Worker& w, unsigned first, unsigned lanes) {
    const void* place = nullptr;
    unsigned active = 0;
    for (unsigned i = 0; i < lanes; ++i) {
        Fiber& fiber = w.fibers[first + i];
        if (fiber.state != State::ASKS || (place && fiber.barrier != place)) continue;
        place = fiber.barrier;
        active |= 1u << i;
    }
    for (unsigned i = 0; i < lanes; ++i) {
        if (!(active >> i & 1)) continue;
        w.fibers[first + i].active = active;
        w.fibers[first + i].state = State::READY;
    }
    return active;
}

// Barriers order writes: so many of them in a row without one, or so many altogether, are a loop that does not end.
void end_endless(Worker& w, const Fiber& waits, uint64_t barriers) {
    w.current = const_cast<Fiber*>(&waits);
    report(w, ENDLESS_BARRIERS, reinterpret_cast<uint64_t>(waits.barrier), false, 0, static_cast<unsigned>(barriers));
    w.current = nullptr;
    w.aborted = true;
    stop_from_here(w);
}

// Where lanes ask which lanes run with them, those that only let others run come first: they would have come along.
bool resume_preempted(Worker& w, unsigned first, unsigned lanes) {
    Fiber* const all = &w.fibers[first];
    if (!is_preemptive(w) || std::none_of(all, all + lanes, [](const Fiber& each) { return each.state == State::ASKS; })) return false;
    bool any = false;
    for (Fiber* fiber = all; fiber < all + lanes; ++fiber) {
        if (fiber->state != State::SPINS || !fiber->is_preempted) continue;
        fiber->state = State::READY;
        any = true;
    }
    return any;
}

// Runs the lanes of a warp until each waits for other warps, spins, or has ended.
void run_warp(Worker& w, unsigned warp) {
    Run& run = *w.run;
    const unsigned first = warp * WARP;
    const unsigned lanes = run.threads - first < WARP ? run.threads - first : WARP;
    unsigned order[WARP];
    arrange(w, order, lanes);
    bool spins = false;
    for (;;) {
        bool ran = false;
        for (unsigned i = 0; i < lanes; ++i) {
            Fiber& fiber = w.fibers[first + order[i]];
            if (fiber.state != State::READY) continue;
            ran = true;
            w.current = &fiber;
            tiledmm_switch(&w.scheduler, fiber.stack_pointer);
            if (w.fault.signal) {
                end_with_fault(w);
                return;
            }
            if (fiber.overwritten.address) look_at_overwritten(w, fiber);
            if (keeps_origins(w)) settle_store(w, fiber.thread);
            w.current = nullptr;
            if (w.aborted) {
                if (is_traced(w, ACCESSES)) flush(w, warp);   // a trace ends at the fault, not at the barrier before it
                return;
            }
            if (w.hands_over && !shares_counters(w)) hand_over(w);
            if (fiber.state != State::DONE) continue;
            check_copies(w, fiber);
            if (w.is_asynchronous || !is_alone(w)) end_asynchronous(w, fiber);
            release_waiting(w, first, lanes);
        }
        if (is_stopped(w)) return;   // run_block says so
        if (w.idle_exchanges > IDLE_EXCHANGES * run.warps && sees_accesses(run.launch))
            for (unsigned i = 0; i < lanes; ++i)
                if (w.fibers[first + i].state != State::DONE) return end_endless(w, w.fibers[first + i], IDLE_EXCHANGES);
        if (ran || resume_preempted(w, first, lanes) || answer(w, first, lanes)) continue;
        if (run.launch.counts) flush(w, warp);
        bool paused = false;
        for (unsigned i = 0; i < lanes; ++i) {
            Fiber& fiber = w.fibers[first + i];
            spins = spins || fiber.state == State::SPINS || fiber.state == State::AT_PHASE;
            if (fiber.state != State::PAUSED) continue;
            fiber.state = State::READY;
            paused = true;
        }
        if (!paused) break;
    }
    if (spins) return;   // lanes that wait for those that spin, or for others, may have to wait longer
    for (unsigned i = 0; i < lanes; ++i) {
        Fiber& fiber = w.fibers[first + i];
        if (fiber.state != State::AT_WARP) continue;
        // Which lane of its mask does not come: it waits elsewhere, or has ended before a product on tensor cores.
        const Fiber* other = nullptr;
        for (unsigned j = 0; j < lanes; ++j) {
            const Fiber& each = w.fibers[first + j];
            if (!(fiber.waits_for >> j & 1) || i == j || (each.state == State::DONE && fiber.kind < WHOLE_WARP)) continue;
            if (!other || each.state != State::AT_WARP) other = &each;
        }
        w.current = &fiber;
        explain(w, w.warps[warp]);
        report(w, WARP_NOT_REACHED, reinterpret_cast<uint64_t>(fiber.barrier), false, 0, 0,
               other ? as_other(w, *other) : Other{});
        w.current = nullptr;
        w.aborted = true;
        stop_from_here(w);
        return;
    }
}

void begin_block(Worker& w, uint64_t number) {
    Run& run = *w.run;
    w.block_number = number;
    w.block = index_of(run, number);
    if (w.epoch >> 24) {   // epochs of 25 bits wrap around
        for (auto* cells : {&w.reads, &w.more_reads, &w.writes}) std::fill(cells->begin(), cells->end(), 0);
        w.epoch = 0;
    }
    w.first_epoch = ++w.epoch;
    w.barriers_before = w.barriers;
    w.idle_barriers = w.idle_exchanges = 0;
    w.acquired.clear();
    w.acquires = false;
    w.spin_rounds = 0;
    w.readers.clear();
    for (NamedBarrier& barrier : w.named) barrier = {};
    begin_asynchronous(w);
    for (unsigned i = 0; i < run.threads; ++i) {
        Fiber& fiber = w.fibers[i];
        fiber.thread = i;
        fiber.index = thread_index(run, i);
        fiber.state = State::READY;
        fiber.barrier = nullptr;
        fiber.steps = 0;
        fiber.samples = 0;
        fiber.limit = SPIN_SLICE;
        if (run.launch.max_steps && run.launch.max_steps < SPIN_SLICE) fiber.limit = run.launch.max_steps + 1;
        fiber.pending.clear();
        fiber.groups.clear();
        fiber.clock = 0;
        for (Fence& fence : fiber.fences) fence = {};
        fiber.reads_from = 0;
        fiber.carry = 0;
        fiber.is_straggler = false;
        fiber.held = fiber.holds = 0;
        fiber.acquired.clear();
        fiber.unfenced.clear();
        fiber.flags = {};
        fiber.overwritten = {};
        begin_asynchronous(fiber);
        fiber.others.reset();
        if (w.warps[i / WARP].synced) std::memset(fiber.known, 0, sizeof fiber.known);
        fiber.floor = reinterpret_cast<uintptr_t>(stack_top(w, i)) - w.deepest;
        fiber.stack_pointer = new_stack(stack_top(w, i), fiber_main);
    }
    for (Warp& warp : w.warps) warp = {};
    if (is_preemptive(w)) choose_stragglers(w);
    if (run.launch.shared_fill < 256)
        for (size_t slot = 0; slot < w.slots.size(); ++slot)
            std::memset(reinterpret_cast<void*>(w.shared_base + (slot << SLOT_BITS)), static_cast<int>(run.launch.shared_fill), w.slots[slot].bytes);
}

// All threads that have not ended wait at a barrier of the block: releases them.
void pass_barrier(Worker& w, const Fiber& waits) {
    Run& run = *w.run;
    if (++w.idle_barriers > IDLE_BARRIERS && sees_accesses(run.launch)) return end_endless(w, waits, IDLE_BARRIERS);
    if (w.barriers - w.barriers_before > MOST_BARRIERS) return end_endless(w, waits, MOST_BARRIERS);
    if (is_traced(w, ACCESSES))
        w.trace.push_back({reinterpret_cast<uint64_t>(waits.barrier), 0, w.barriers - w.barriers_before, 0, 0, 0, BARRIER, SHARED, w.rank, w.rank});
    ++w.barriers;
    if (run.launch.counts) ++w.counters.counts[find_site(run, waits.barrier, 0, LOAD)].barriers;
    share_acquired(w);
    if (w.has_others) share_others(w, w.thread_numbers);
    ++w.epoch;
    w.readers.clear();
    w.spin_rounds = 0;
    get_on(w);
    w.votes[++w.vote_epoch % 2] = 0;
    for (Fiber& fiber : w.fibers)
        if (fiber.state == State::AT_BARRIER || fiber.state == State::AT_GRID) fiber.state = State::READY;
}

void run_block(Worker& w) {
    Run& run = *w.run;
    unsigned order[MAX_THREADS / WARP];
    for (;;) {
        arrange(w, order, run.warps);
        for (unsigned i = 0; i < run.warps; ++i) {
            run_warp(w, order[i]);
            if (w.aborted) return;
        }
        const Fiber *waits = nullptr, *ended = nullptr, *elsewhere = nullptr, *named = nullptr, *left = nullptr;
        bool runs = false, spins = false, at_warp = false, asleep = false, at_block = false, at_grid = false;
        for (Fiber& fiber : w.fibers) {
            if (fiber.state != State::DONE && fiber.barrier) left = &fiber;
            spins = spins || fiber.state == State::SPINS;
            at_block = at_block || fiber.state == State::AT_BARRIER;
            at_grid = at_grid || fiber.state == State::AT_GRID;
            if (fiber.state == State::SPINS && fiber.held) --fiber.held, runs = true;
            else if (fiber.state == State::SPINS) fiber.state = State::READY;
            if (fiber.state == State::READY) runs = true;
            if (fiber.state == State::AT_WARP) at_warp = true;
            if (fiber.state == State::AT_PHASE) asleep = true;
            if (fiber.state == State::DONE)
                ended = &fiber;
            else if (fiber.state == State::AT_PHASE)
                continue;
            else if (fiber.state == State::AT_NAMED)
                named = &fiber;
            else if (!waits)
                waits = &fiber;
            else if (fiber.barrier != waits->barrier)
                elsewhere = &fiber;
        }
        if (is_stopped(w)) {
            if (left && run.timed_out.exchange(false)) {
                w.current = const_cast<Fiber*>(left);
                report(w, TIMED_OUT, reinterpret_cast<uint64_t>(left->barrier), false, 0, 0);
                w.current = nullptr;
            }
            w.aborted = true;
            return;
        }
        runs = runs || (at_warp && !asleep);
        if (runs && is_preemptive(w)) hand_over(w, true);
        else if (spins && is_cooperative(w)) let_others_run(w);
        if (runs && (spins || run.launch.order == PREEMPTIVE || run.launch.order == RANDOM)) let_cluster_run(w, spins);
        if (runs) continue;
        if (asleep) {
            if (await_others(w)) continue;
            w.aborted = true;
            return;
        }
        if (named) {   // nobody is left who could come to it
            const Fiber* other = waits ? waits : ended;
            w.current = const_cast<Fiber*>(named);
            report(w, BARRIER_NOT_REACHED, reinterpret_cast<uint64_t>(named->barrier), false, 0, 1, other ? as_other(w, *other) : Other{});
            w.current = nullptr;
            w.aborted = true;
            stop_from_here(w);
            return;
        }
        if (!waits) break;
        if (ended || elsewhere) {   // on a GPU, threads that have ended count as arrived
            w.current = const_cast<Fiber*>(waits);
            const bool differs = elsewhere && elsewhere->instance != waits->instance;
            report(w, elsewhere || at_grid ? BARRIER_NOT_REACHED : BARRIER_LEFT, reinterpret_cast<uint64_t>(waits->barrier), false, 0, differs,
                   as_other(w, elsewhere ? *elsewhere : *ended));
            w.current = nullptr;
        }
        if (at_grid && (ended || at_block)) stop_all(run);   // the block never comes to the barrier of the grid
        if (at_grid && (is_stopping(run) || !wait_for_grid(w))) continue;
        pass_barrier(w, *waits);
        if (w.aborted) return;
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

void add_counts(Run& run, const std::vector<SiteCounts>& counts) {
    for (size_t i = 0; i < counts.size(); ++i) {
        SiteCounts& sum = run.counts[i];
        sum.flops += counts[i].flops;
        sum.barriers += counts[i].barriers;
        sum.phases += counts[i].phases;
        for (int space = 0; space < 2; ++space) {
            merge(sum.source[space], counts[i].source[space]);
            merge(sum.sass[space], counts[i].sass[space]);
        }
    }
}

// ---- functions that kernels call ----

#pragma GCC visibility push(default)
extern "C" {

Index tiledmm_thread_index() { return worker->current->index; }
Index tiledmm_block_index() { return worker->block; }
Index tiledmm_block_size() { return worker->run->block; }
Index tiledmm_grid_size() { return worker->run->grid; }
unsigned tiledmm_lane() { return worker->current->thread % WARP; }

void tiledmm_sync_threads(unsigned instance) {
    Worker& w = *worker;
    w.current->barrier = CALLER;
    w.current->instance = instance;
    leave(w, State::AT_BARRIER);
}

void tiledmm_sync_grid(unsigned instance) {
    Worker& w = *worker;
    if (!is_cooperative(w)) report_and_abort(w, BROKEN_RULE, CALLER, false, 0, 5);
    w.current->barrier = CALLER;
    w.current->instance = instance;
    leave(w, State::AT_GRID);
}

bool tiledmm_is_cooperative() { return is_cooperative(*worker); }

unsigned tiledmm_sync_threads_count(unsigned instance, bool predicate) {
    Worker& w = *worker;
    const unsigned epoch = w.vote_epoch;   // the barrier clears the other sum
    w.votes[epoch % 2] += predicate;
    w.current->barrier = CALLER;
    w.current->instance = instance;
    leave(w, State::AT_BARRIER);
    return worker->votes[epoch % 2];
}

void tiledmm_sync_whole_warp() { sync_warp(~0u, CALLER, WARP_BARRIER); }
void tiledmm_sync_warp(unsigned mask) { sync_warp(mask, CALLER, WARP_BARRIER); }

void tiledmm_exchange(unsigned mask, unsigned long long value, unsigned kind) {
    Fiber& fiber = *worker->current;
    fiber.given = value;
    sync_warp(mask, CALLER, kind + 1);
}

unsigned long long tiledmm_exchanged(unsigned lane) {
    Worker& w = *worker;
    return w.current->received[lane];   // as it was then: others may have gone on, with other lanes
}

unsigned long long tiledmm_shuffled(unsigned lane, unsigned mask, unsigned strict) {
    Worker& w = *worker;
    if (w.current->present >> lane & 1) return tiledmm_exchanged(lane);
    const bool ended = mask >> lane & 1 && w.current->thread / WARP * WARP + lane < w.run->threads;
    const FindingKind kind = ended ? SHUFFLE_ENDED : strict ? SHUFFLE_SOURCE : SHUFFLE_UNDEFINED;
    const auto place = reinterpret_cast<uint64_t>(CALLER);
    Finding finding = make_finding(w, kind, place, false, 0, lane, {});
    finding.mask = mask;
    report(w, finding);
    if (place == w.run->launch.undefined_at) return w.run->launch.undefined_fill * 0x0101010101010101ull;
    return 0xfffafffafffafffaull;   // a NaN, as 2, 4 or 8 bytes
}

void tiledmm_bad_shuffle_width(int width) {
    report(*worker, SHUFFLE_WIDTH, reinterpret_cast<uint64_t>(CALLER), false, 0, static_cast<unsigned>(width));
}

void tiledmm_not_returned() { report(*worker, NOT_RETURNED, reinterpret_cast<uint64_t>(CALLER), false, 0, 0); }

unsigned tiledmm_active_mask() {
    Worker& w = *worker;
    w.current->barrier = CALLER;
    leave(w, State::ASKS);
    return worker->current->active;
}

void tiledmm_fence(unsigned scope) {
    may_preempt(*worker);
    fence(*worker, scope > 0);
    end_if_told(*worker, CALLER);
}

void tiledmm_named_barrier(unsigned id, unsigned threads, unsigned waits) {
    Worker& w = *worker;
    may_preempt(w);
    w.synchronizes = true;
    Fiber& fiber = *w.current;
    NamedBarrier& barrier = w.named[id % 16];
    fiber.barrier = CALLER;
    know_unfenced(w, fiber);
    for (const Acquired& each : fiber.acquired) keep_acquired(barrier.acquired, each);
    add_known(w, fiber, barrier.known);
    ++fiber.clock;   // what it does from now on, the barrier does not order
    ++barrier.arrived;
    if (waits) barrier.waiting.push_back(fiber.thread);
    if (barrier.arrived < (threads ? threads : w.run->threads)) {
        if (waits) leave(w, State::AT_NAMED);
        return;
    }
    const auto known = std::make_shared<const Knowledge>(std::move(barrier.known));
    for (const unsigned thread : barrier.waiting) {   // one that only arrived learns nothing
        Fiber& other = w.fibers[thread];
        learn(w, other, known);
        other.in_cluster.reset();   // the others may have known all in that scope
        other.acquired = barrier.acquired;
        other.state = State::READY;
    }
    barrier = {};
    w.spin_rounds = 0;
    get_on(w);
}

// It counts calls, and the accesses between them: the same in each run, so that runs can be compared.
long long tiledmm_clock() {
    Worker& w = *worker;
    end_if_told(w, CALLER);
    const uint64_t steps = w.current->steps;
    w.ticks += 16 + (steps > w.seen_steps ? 4 * (steps - w.seen_steps) : 0);
    w.seen_steps = steps;
    return static_cast<long long>((1 << 20) + w.ticks) * std::max(w.run->launch.clock_rate, 1u);
}

// Arguments of other types than the format says: C leaves it undefined, and a GPU prints what it finds there.
void tiledmm_check_printf(const char* format, const char* kinds) {
    unsigned number = 0;
    const auto expects = [&](const char* fitting) {
        const char kind = number < std::strlen(kinds) ? kinds[number] : 0;
        ++number;
        if (!kind || !std::strchr(fitting, kind))
            report(*worker, MISPRINTED, reinterpret_cast<uint64_t>(CALLER), false, 0, number);
    };
    for (const char* at = format; *at; ++at) {
        if (*at != '%') continue;
        while (*++at && std::strchr("-+ #0123456789.*hlLqjzt", *at))
            if (*at == '*') expects("i");
        if (!*at) break;
        if (std::strchr("diuoxXc", *at)) expects("i");
        else if (std::strchr("aAeEfFgG", *at)) expects("f");
        else if (std::strchr("sp", *at)) expects("p");
    }
}

// Whether a format has %n, which writes to memory, or a width or precision that would take the C library forever.
static bool is_strange(const char* format) {
    for (const char* at = format; (at = std::strchr(at, '%')); ++at) {
        const size_t flags = std::strspn(++at, "-+ #0"), width = std::strspn(at + flags, "0123456789");
        const char* end = at + flags + width;
        size_t precision = 0;
        if (*end == '.') end += 1 + (precision = std::strspn(end + 1, "0123456789"));
        end += std::strspn(end, "hljztL*");
        if (width > 4 || precision > 4 || *end == 'n') return true;
        if (!*end) return false;
        at = end;
    }
    return false;
}

int tiledmm_printf(const char* format, ...) {
    constexpr size_t MOST = 1 << 20;   // as the buffer of a GPU has
    if (is_strange(format)) report_and_abort(*worker, BROKEN_RULE, CALLER, false, 0, 9);
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    const int length = std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    Run& run = *worker->run;
    {
        std::lock_guard<std::mutex> guard(run.lock);
        if (run.output.size() < MOST) run.output += text;
    }
    end_if_told(*worker, CALLER);
    return length;
}

void tiledmm_assert_failed(const char*) {
    report(*worker, ASSERTION, reinterpret_cast<uint64_t>(CALLER), false, 0, 0);
    abort_launch(*worker);
}

void tiledmm_broken_rule(unsigned rule) {
    report(*worker, BROKEN_RULE, reinterpret_cast<uint64_t>(CALLER), false, 0, rule);
    abort_launch(*worker);
}

void tiledmm_beyond_range(unsigned function, double x) {
    uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    report(*worker, BEYOND_RANGE, reinterpret_cast<uint64_t>(CALLER), false, bits, function);
}

void tiledmm_exit() {
    report(*worker, EXITED, reinterpret_cast<uint64_t>(CALLER), false, 0, 0);
    abort_launch(*worker);
}

void tiledmm_trap() {
    report(*worker, TRAPPED, reinterpret_cast<uint64_t>(CALLER), false, 0, 0);
    abort_launch(*worker);
}

// ---- malloc and free ----

void* tiledmm_allocate(unsigned long bytes, unsigned long alignment, const void* place) {
    Worker& w = *worker;
    const void* const at = place ? place : CALLER;
    end_if_told(w, at);
    return allocate(w, bytes, alignment, at);
}

void tiledmm_free(void* memory, const void* place) {
    Worker& w = *worker;
    const void* const at = place ? place : CALLER;
    const auto address = reinterpret_cast<uintptr_t>(memory);
    end_if_told(w, at);
    if (!memory) return;
    if (in_heap(*w.run, address) && w.run->launch.checks) on_free(w, address, at);
    const Freeing freeing = release_allocation(w, address, at);
    if (freeing == Freeing::DONE) return;
    const bool twice = freeing == Freeing::TWICE;
    report(w, BAD_FREE, reinterpret_cast<uint64_t>(at), true, address, twice ? 1 : 2, twice ? who_freed(*w.run, address) : Other{});
    abort_launch(w);
}

// ---- programmatic dependent launch ----

void tiledmm_wait_for_launch() { wait_for_launch(*worker); }

// ---- cp.async ----

void tiledmm_copy_async(void* shared, const void* global, unsigned bytes, unsigned source_bytes) {
    Worker& w = *worker;
    const Launch& launch = w.run->launch;
    if (!sees_accesses(launch)) {
        std::memcpy(shared, global, source_bytes);
        std::memset(static_cast<uint8_t*>(shared) + source_bytes, 0, bytes - source_bytes);
        return;
    }
    const void* const place = CALLER;
    if ((bytes != 4 && bytes != 8 && bytes != 16) || source_bytes > bytes || launch.arch < 800)
        report_and_abort(w, BAD_COPY, place, true, reinterpret_cast<uintptr_t>(shared), bytes);
    if (source_bytes) on_other_access(reinterpret_cast<uintptr_t>(global), source_bytes, READS | IS_COPY, COPY, place, bytes);
    on_other_access(reinterpret_cast<uintptr_t>(shared), bytes, WRITES | IS_COPY, COPY, place, bytes);
    Pending copy = {static_cast<uint8_t*>(shared), bytes, find_site(*w.run, place, bytes, COPY), {}, reinterpret_cast<uintptr_t>(global),
                    source_bytes, nullptr};
    std::memcpy(copy.data, global, source_bytes);
    w.current->pending.push_back(copy);
}

void tiledmm_commit_copies() {
    worker->current->groups.push_back(worker->current->pending.size());
    end_if_told(*worker, CALLER);
}

// Copies the data of the first copies to shared memory now, no sooner: earlier reads get the old data.
static void finish_copies(Worker& w, size_t done) {
    Fiber& fiber = *w.current;
    for (size_t i = 0; i < done; ++i) {
        const Pending& copy = fiber.pending[i];
        std::memcpy(copy.shared, copy.data, copy.bytes);
        if (!w.run->launch.checks) continue;
        const size_t offset = reinterpret_cast<uintptr_t>(copy.shared) - w.shared_base;
        const Cell mine = make_cell(w.epoch, cell_clock(w, fiber), fiber.thread, copy.site);
        for (size_t at = offset >> w.granule_shift; at < (offset + copy.bytes) >> w.granule_shift; ++at) w.writes[at] = mine;
        if (keeps_origins(w)) keep_origin(w, offset, copy.source_bytes, copy.global);
    }
    fiber.pending.erase(fiber.pending.begin(), fiber.pending.begin() + static_cast<std::ptrdiff_t>(done));
    size_t left = 0;
    for (const size_t end : fiber.groups)
        if (end > done) fiber.groups[left++] = end - done;
    fiber.groups.resize(left);
}

// Waits until at most `pending` of the committed groups are left. A copy that was not committed is in none.
void tiledmm_wait_for_copies(unsigned pending) {
    Worker& w = *worker;
    const auto& groups = w.current->groups;
    for (size_t i = groups.empty() ? 0 : groups.back(); i < w.current->pending.size(); ++i) w.current->pending[i].passed_at = CALLER;
    if (groups.size() > pending) finish_copies(w, groups[groups.size() - pending - 1]);
}

void tiledmm_wait_for_all_copies() {
    finish_copies(*worker, worker->current->pending.size());
    end_if_told(*worker, CALLER);
}

// ---- atomics ----

void tiledmm_block_scope(int begins) { worker->current->in_block_scope = begins; }

void tiledmm_atomic_access(void* at, unsigned bytes) {
    const Launch& launch = worker->run->launch;
    if (sees_accesses(launch))
        on_other_access(reinterpret_cast<uintptr_t>(at), bytes, WRITES | IS_ATOMIC, STORE, CALLER, bytes);
}

void tiledmm_monotone_access(void* at, unsigned bytes) {
    if (sees_accesses(worker->run->launch))
        on_other_access(reinterpret_cast<uintptr_t>(at), bytes, WRITES | IS_ATOMIC | COMPARES, STORE, CALLER, bytes);
}

void tiledmm_compare_access(void* at, unsigned bytes) {
    const Launch& launch = worker->run->launch;
    if (sees_accesses(launch)) leave(*worker, State::READY);   // other lanes come to theirs first: not all can swap what they read
    if (sees_accesses(launch))
        on_other_access(reinterpret_cast<uintptr_t>(at), bytes, WRITES | IS_ATOMIC | COMPARES, STORE, CALLER, bytes);
}

static int swap_value(void* at, void* expected, const void* desired, unsigned bytes) {
    const auto swap = [&](auto type) -> int {
        using T = decltype(type);
        T old, next;
        std::memcpy(&old, expected, sizeof(T));
        std::memcpy(&next, desired, sizeof(T));
        const bool done = __atomic_compare_exchange_n(static_cast<T*>(at), &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        std::memcpy(expected, &old, sizeof(T));
        return done;
    };
    switch (bytes) {
        case 1: return swap(uint8_t{});
        case 2: return swap(uint16_t{});
        case 4: return swap(uint32_t{});
        case 8: return swap(uint64_t{});
    }
    static std::mutex wide;   // 16 bytes: no other access of that width is atomic here
    std::lock_guard<std::mutex> guard(wide);
    const bool same = std::memcmp(at, expected, bytes) == 0;
    if (same)
        std::memcpy(at, desired, bytes);
    else
        std::memcpy(expected, at, bytes);
    return same;
}

int tiledmm_compare_and_swap(void* at, void* expected, const void* desired, unsigned bytes, int is_last) {
    Worker& w = *worker;
    Run& run = *w.run;
    const bool changes = std::memcmp(expected, desired, bytes);
    const bool tells = w.current->fences[OWN_BLOCK].done || run.launch.uses & HAS_VOLATILE;
    std::unique_lock<std::mutex> guard(run.lock, std::defer_lock);
    bool orders = run.launch.checks && (tells || run.released.load(std::memory_order_relaxed));
    if (orders) guard.lock();   // whoever sees the value comes to what is released with it after this
    if (orders && tells && changes) run.released = true;   // before the value: whoever sees that one looks for what came with it
    const int done = swap_value(at, expected, desired, bytes);
    if (!orders && run.launch.checks && run.released) {   // since this thread looked, perhaps with the value that it sees
        guard.lock();
        orders = true;
    }
    if (done && changes) get_on(w);
    if (orders && (done || is_last)) synchronize_atomic(w, place_of(w, reinterpret_cast<uintptr_t>(at)), done && changes);
    return done;
}

bool tiledmm_carry(bool is_volatile) {
    Worker& w = *worker;
    const uint8_t carry = w.current->carry;
    if (!carry) report_and_abort(w, BROKEN_RULE, CALLER, false, 0, 10);
    if (!is_volatile || !(carry & CARRY_VOLATILE)) report(w, CARRY_NOT_KEPT, reinterpret_cast<uint64_t>(CALLER), false, 0, 0);
    return carry & CARRY_IS_ONE;
}

void tiledmm_set_carry(bool carry, bool is_volatile) {
    worker->current->carry = static_cast<uint8_t>(CARRY_SET | (carry ? CARRY_IS_ONE : 0) | (is_volatile ? CARRY_VOLATILE : 0));
}

unsigned tiledmm_shared_offset(const void* shared) {
    const Worker& w = *worker;
    return window_address(w, reinterpret_cast<uintptr_t>(shared) - w.shared_base);
}

// What is nowhere else is in global memory, as on a GPU.
unsigned tiledmm_space(const void* at) {
    const Worker& w = *worker;
    const Launch& launch = w.run->launch;
    const auto address = reinterpret_cast<uintptr_t>(at);
    if (address - w.shared_base < w.shared_span) return 0;
    if (in_stacks(w, address)) return 2;
    for (unsigned i = 0; i < launch.operand_count; ++i) {
        const Operand& each = launch.operands[i];
        if (each.constant && address - each.begin < each.bytes) return 3;
    }
    return 1;
}

void* tiledmm_shared_address(unsigned at) { return reinterpret_cast<void*>(worker->shared_base + offset_of(*worker, at)); }

void tiledmm_count_flops(unsigned operations) {
    Worker& w = *worker;
    if (!w.run->launch.counts) return;
    const unsigned site = find_site(*w.run, CALLER, 0, LOAD);
    w.counters.counts[site].flops += operations;
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
    run->blocks = launch->chosen ? launch->chosen_count : static_cast<uint64_t>(run->grid.x) * run->grid.y * run->grid.z;
    if (launch->counts) run->counts.resize(SITES);
    run->turns.random = (launch->seed + 1) * 0x9e3779b97f4a7c15ull;
    run->turns.straggler = static_cast<unsigned>(launch->seed / STYLES);
    if (launch->cooperative) run->resident.epochs.resize(run->blocks);
    faults::install();
    return run;
}

int tiledmm_work(Run* run) {
    const Launch& launch = run->launch;
    Worker w;
    w.run = run;
    Stacks stacks = take_stacks(launch.cooperative);
    w.stacks = stacks.memory;
    Shadow shadow;
    if (!w.stacks || (launch.guarded && !shadow.map(w.stacks, MAX_THREADS * STACK_BYTES))) {
        if (w.stacks) keep_stacks(stacks, 0);
        stop_all(*run);   // others may wait for this one
        return 1;
    }
    // The system allows 65,530 pieces of memory, and an inaccessible page makes two: without one, note_depth looks at a stack's end.
    if (!launch.cooperative || run->blocks * run->threads <= MOST_GUARDS)
        for (; stacks.guarded < run->threads; ++stacks.guarded) mprotect(stack_of(w, stacks.guarded), GUARD_BYTES, PROT_NONE);
    else
        madvise(w.stacks, MAX_THREADS * STACK_BYTES, MADV_NOHUGEPAGE);
    w.fibers.resize(run->threads);
    w.warps.resize(run->warps);
    w.members = run->warps * WARP + AGENTS;
    for (unsigned thread = 0; thread < run->threads; ++thread) w.thread_numbers.push_back(thread);
    join_cluster(w);
    w.thread = pthread_self();
    const faults::SignalStack signals;
    uintptr_t shared_bytes = 0;
    if (launch.array_count) {
        const auto anchor = reinterpret_cast<uintptr_t>(launch.anchor());
        uintptr_t first = UINTPTR_MAX, last = 0;
        for (unsigned i = 0; i < launch.array_count; ++i) {
            const uintptr_t begin = anchor + static_cast<uintptr_t>(launch.arrays[i].from_anchor);
            first = std::min(first, begin);
            last = std::max<uintptr_t>(last, begin + launch.arrays[i].bytes);
        }
        w.shared_base = first;
        shared_bytes = (last - first + 3) >> 2 << 2;
        w.shared_span = (last - first + 0xffff) >> SLOT_BITS << SLOT_BITS;
        w.slots.resize(w.shared_span >> SLOT_BITS);
        for (unsigned i = 0; i < launch.array_count; ++i) {
            size_t slot = (anchor + static_cast<uintptr_t>(launch.arrays[i].from_anchor) - first) >> SLOT_BITS;
            for (uint64_t left = launch.arrays[i].bytes; left > 0; ++slot) {
                w.slots[slot].bytes = static_cast<uint32_t>(std::min<uint64_t>(left, 1u << SLOT_BITS));
                w.slots[slot].is_dynamic = !launch.arrays[i].alignment;
                if (launch.arrays[i].alignment) w.slots[slot].alignment = static_cast<uint32_t>(launch.arrays[i].alignment);
                left -= w.slots[slot].bytes;
            }
        }
    }
    lay_out_window(w);
    if (launch.checks) {
        for (auto* cells : {&w.reads, &w.more_reads, &w.writes}) cells->resize(shared_bytes >> w.granule_shift);
    }
    if (launch.counts && !launch.cooperative) {
        w.counters.begin();
    }
    {
        std::lock_guard<std::mutex> guard(run->lock);
        run->workers.push_back(&w);
    }
    worker = &w;
    const bool takes_part = is_preemptive(w) && is_alone(w);
    if (takes_part) take_part(w);
    for (;;) {
        const uint64_t cluster = next_cluster(w);
        w.earlier = cluster * w.cluster->members.size() + w.rank;
        if (w.cluster->ends) break;
        const uint64_t block = block_in_cluster(*run, cluster, w.rank);
        w.block_number = block;
        if (is_cooperative(w) && !is_preemptive(w) && !wait_for_all(w)) break;
        w.random = (launch.seed + 1) * 0x9e3779b97f4a7c15ull ^ (block + 1) * 0xbf58476d1ce4e5b9ull;
        begin_block(w, block);
        if (!begin_in_cluster(w)) break;
        run_block(w);
        end_in_cluster(w);
        if (!w.aborted) run->finished.fetch_add(1);
        for (const Fiber& fiber : w.fibers) {
            w.steps += fiber.steps;
            w.most_steps = std::max(w.most_steps, fiber.steps);
        }
        get_on(w);
        if (is_cooperative(w)) end_resident(w);
        if (takes_part) hand_over(w);
    }
    if (takes_part) give_up_turn(w);
    worker = nullptr;
    if (w.synchronizes) run->synchronizes = true;
    keep_stacks(stacks, run->threads);
    std::lock_guard<std::mutex> guard(run->lock);
    run->workers.erase(std::find(run->workers.begin(), run->workers.end(), &w));
    run->barriers += w.barriers;
    if (w.deepest_pc && w.deepest > run->deepest) run->deepest = w.deepest, run->deepest_pc = w.deepest_pc;
    run->steps += w.steps;
    run->most_steps = std::max(run->most_steps, w.most_steps);
    run->trace.insert(run->trace.end(), w.trace.begin(), w.trace.end());
    add_counts(*run, w.counters.counts);
    return 0;
}

uint64_t tiledmm_blocks_done(const Run* run) { return run->finished; }
uint64_t tiledmm_deepest(const Run* run, uint64_t* pc) {
    *pc = run->deepest_pc;
    return run->deepest;
}
uint64_t tiledmm_ran_out(const Run* run) { return run->timed_out; }
void tiledmm_stop(Run* run) { stop_all(*run); }
void tiledmm_time_out(Run* run) {
    if (run->ends_from) run->timed_out = true;
    stop_all(*run);
}

// A worker whose thread makes no access, or is to stop, is sent a signal: again and again, until that finds it in the kernel.
void tiledmm_watch(Run* run) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t milliseconds = now.tv_sec * 1000ull + now.tv_nsec / 1000000;
    std::lock_guard<std::mutex> guard(run->lock);
    if (!is_stopping(*run) || !run->ran_until) run->ran_until = milliseconds;
    else if (run->launch.stall && milliseconds - run->ran_until > run->launch.stall) stop_all(*run);   // an earlier block goes on and on
    for (Worker* each : run->workers) {
        const Fiber* current = *const_cast<Fiber* volatile*>(&each->current);
        const uint64_t state = current ? (reinterpret_cast<uintptr_t>(current) * 0x9e3779b97f4a7c15ull) ^ current->steps ^ each->epoch << 40 : 0;
        if (state != each->seen || !current) {
            each->seen = state;
            each->seen_at = milliseconds;
        }
        const bool stalled = run->launch.stall && milliseconds - each->seen_at > run->launch.stall;
        const bool stopped = is_stopped(*each);
        if (!stopped && !stalled) continue;
        each->ends = 1 + (stopped ? TIMED_OUT : STALLED);
        pthread_kill(each->thread, faults::END);
    }
}

uint64_t tiledmm_output(const Run* run, const char** text) {
    *text = run->output.data();
    return run->output.size();
}
uint64_t tiledmm_barriers(const Run* run) { return run->barriers; }
int tiledmm_synchronizes(const Run* run) { return run->synchronizes; }
void tiledmm_places(const Run* run, uint64_t* places) {
    for (unsigned site = 0; site < SITES; ++site) places[site] = run->sites[site].pc;
}
uint64_t tiledmm_steps(const Run* run, uint64_t* most) {
    *most = run->most_steps;
    return run->steps;
}

uint64_t tiledmm_findings(Run* run, const Finding** findings) {
    sort_findings(*run);
    for (const auto& [begin, each] : run->heap.all) {
        if (each.freed_at || is_stopping(*run)) continue;
        Finding left = {};
        left.kind = NOT_FREED;
        left.count = 1;
        left.pc = each.place;
        left.bytes = static_cast<uint32_t>(each.bytes);
        left.space = GLOBAL;
        set(left.block, index_of(*run, each.block));
        set(left.thread, thread_index(*run, each.thread));
        keep(*run, left);
    }
    for (const auto& each : run->deferred)
        for (const Finding& finding : each.second) {
            const uint64_t reader = finding.writes ? finding.other_pc : finding.pc;
            if (!run->guards.count(reader) || run->polls.count(reader)) keep(*run, finding);
        }
    run->deferred.clear();
    *findings = run->findings.data();
    return run->findings.size();
}

uint64_t tiledmm_counts(Run* run, const SiteCounts** counts) {
    for (const Counters& each : run->resident.counters) add_counts(*run, each.counts);
    run->resident.counters.clear();
    auto& all = run->counts;
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

void tiledmm_end(Run* run) {
    faults::remove();
    end_heap(*run);
    delete run;
}

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

}   // extern "C"
#pragma GCC visibility pop
