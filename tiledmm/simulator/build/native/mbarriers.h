// mbarriers: arrivals, expected bytes, phases, and waits for them.
//
// Depends on: asynchronous_memory.h, clusters.h, remote_accesses.h, schedule.h
#pragma once

#include "asynchronous_memory.h"
#include "clusters.h"
#include "remote_accesses.h"
#include "schedule.h"

struct Found {
    Worker* owner;
    unsigned offset;
    Barrier* barrier;
};

Found find_barrier(Worker& w, unsigned at, const void* place) {
    Worker* const owner = owner_at(w, at, place);
    const uintptr_t offset = offset_of(*owner, at);
    if (!is_inside(*owner, offset, 8)) report_and_abort(w, OUTSIDE_SHARED, place, true, w.shared_base + offset, 8);
    if (offset & 7) report_and_abort(w, MISALIGNED, place, true, w.shared_base + offset, 8);
    touch(w, *owner, place, offset, 8, true, find_site(*w.run, place, 8, STORE));
    const auto found = owner->mbarriers.find(static_cast<unsigned>(offset));
    if (found == owner->mbarriers.end()) report_and_abort(w, BAD_BARRIER, place, true, w.shared_base + offset, NOT_INITIALISED);
    Barrier& barrier = found->second;
    const bool is_relayed =
        barrier.fenced && w.cluster->phase > barrier.fenced_at;   // by a barrier of the cluster without memory order
    const bool same = owner == &w && barrier.thread == w.current->thread;
    const bool ordered = same || is_relayed ||
                         (owner == &w && (barrier.epoch < block_epoch(w) || knows(w, barrier.thread, barrier.clock))) ||
                         includes(w, w.current->others.get(), owner->rank, barrier.thread, barrier.epoch, barrier.clock);
    if (checks(w) && !ordered)
        report(w, BAD_BARRIER, as_pc(place), true, w.shared_base + offset, INITIALISATION_NOT_ORDERED,
               {barrier.made_at, owner->block_number, barrier.thread, true});
    if (owner == &w && w.run->launch.uses & INVALIDATES)
        barrier.uses[w.current->thread] = {block_epoch(w), w.current->clock, as_pc(place)};
    return {owner, static_cast<unsigned>(offset), &barrier};
}

void complete_phase(Worker& owner, unsigned offset, Barrier& barrier) {
    for (Copy& copy : owner.cluster->copies)
        for (Copy::Target& target : copy.targets) {
            if (!copy.completes || copy.barrier != offset || target.rank != owner.rank || target.phase != barrier.phase)
                continue;
            ++target.phase;   // it will count there
            Worker& issuer = *owner.cluster->members[copy.rank];
            report_of(issuer, copy.thread, UNEXPECTED_BYTES, copy.place, true, issuer.shared_base + offset,
                      static_cast<unsigned>(copy.data.size()), {barrier.expected_at, owner.block_number, barrier.thread, true},
                      {1, barrier.phase});
        }
    reserve(owner, barrier.known);
    for (AsyncRange& each : barrier.landed) {
        unsigned& clock = barrier.known.clocks[owner.rank * owner.members + barrier.agent];
        clock = std::max(clock, each.clock + 1);
        barrier.settled.push_back(each);
    }
    barrier.landed.clear();
    trace(owner, owner, 0, COMPLETED, barrier.arrived_at, offset, 0, barrier.phase);
    if (owner.run->launch.counts)
        ++worker->counters.counts[find_site(*owner.run, reinterpret_cast<const void*>(barrier.made_at), 8, STORE)].phases;
    ++barrier.phase;
    barrier.pending = barrier.arrivals;
    barrier.done = std::make_shared<const Knowledge>(barrier.known);
    if (barrier.has_remote) {
        for (Knowledge* each : {&barrier.in_block, &barrier.in_cluster}) reserve(owner, *each);
        barrier.done_in_block = std::make_shared<const Knowledge>(barrier.in_block);
        barrier.done_in_cluster = std::make_shared<const Knowledge>(barrier.in_cluster);
    }
    wake(owner);
}

void complete_if_all(Worker& owner, unsigned offset, Barrier& barrier) {
    if (barrier.pending == 0 && barrier.bytes == 0) complete_phase(owner, offset, barrier);
}

// A thread has waited for the phase: from now on, only threads that do not know of it must not access what its copies wrote.
void settle(Worker& owner, Barrier& barrier) {
    for (const AsyncRange& each : barrier.settled) {
        if (!checks(owner)) break;
        const Cell cell = make_cell(owner.epoch, cell_clock(owner, barrier.agent, each.clock), barrier.agent, each.site);
        for (size_t i = each.begin >> owner.granule_shift; i << owner.granule_shift < each.end; ++i)
            if (thread_of(owner.writes[i]) == barrier.agent && owner.writes[i] & IN_FLIGHT) owner.writes[i] = cell;
    }
    barrier.settled.clear();
}

// What the current thread's arrival says, to a wait of scope .cta and to one of scope .cluster.
void add_arrival(Worker& w, const Found& found, unsigned flags) {
    Barrier& barrier = *found.barrier;
    const Fiber& fiber = *w.current;
    add_known(w, fiber, barrier.known);
    if (is_alone(w)) return;
    const bool is_remote = found.owner != &w;
    barrier.has_remote |= is_remote;
    if (!is_remote) add_known(w, fiber, barrier.in_block, known_in_cluster(fiber));
    if (!is_remote || flags & OF_CLUSTER) add_known(w, fiber, barrier.in_cluster, known_in_cluster(fiber));
}

// The current thread has waited for a barrier: it knows what was said there.
void learn_phase(Worker& w, const Barrier& barrier, unsigned flags) {
    Fiber& fiber = *w.current;
    if (barrier.done && (barrier.has_remote || fiber.in_cluster)) {
        const auto& said = !barrier.has_remote  ? barrier.done
                           : flags & OF_CLUSTER ? barrier.done_in_cluster
                                                : barrier.done_in_block;
        const auto& known = known_in_cluster(fiber);
        auto all = known ? std::make_shared<Knowledge>(*known) : std::make_shared<Knowledge>();
        reserve(w, *all);
        if (said) join(*all, *said);
        fiber.in_cluster = all;
    }
    learn(w, fiber, barrier.done);
}

// Arrivals and expected bytes by the current thread.
uint64_t arrive(Worker& w, const Found& found, unsigned arrivals, unsigned bytes, unsigned flags, const void* place) {
    Barrier& barrier = *found.barrier;
    Fiber& fiber = *w.current;
    const uintptr_t address = w.shared_base + found.offset;
    if (arrivals > MOST_ARRIVALS || arrivals == 0) report_and_abort(w, BAD_BARRIER, place, true, address, BAD_ARRIVALS);
    if (!(flags & RELAXED)) add_arrival(w, found, flags);
    ++fiber.clock;
    const uint64_t token = TOKEN << 56 | static_cast<uint64_t>(barrier.phase & 0xffffff) << 32 | barrier.pending;
    if (flags & EXPECTS) trace(*found.owner, EXPECTED, place, found.offset, bytes, barrier.phase);
    trace(*found.owner, ARRIVED, place, found.offset, arrivals, barrier.phase);
    if (flags & EXPECTS) {
        barrier.bytes += bytes;
        barrier.expected_at = as_pc(place);
        if (barrier.bytes > MOST_BYTES) report(w, BAD_BARRIER, as_pc(place), true, address, TOO_MANY_BYTES);
    }
    if (arrivals > barrier.pending)
        report(w, BAD_BARRIER, as_pc(place), true, address, TOO_MANY_ARRIVALS,
               {barrier.made_at, found.owner->block_number, barrier.thread, true});
    barrier.arrived_at = as_pc(place);
    barrier.pending -= std::min(barrier.pending, arrivals);
    if (flags & DROPS) barrier.arrivals -= std::min(barrier.arrivals, arrivals);
    complete_if_all(*found.owner, found.offset, barrier);
    return token;
}

#pragma GCC visibility push(default)
extern "C" {

void tiledmm_barrier_init(unsigned at, unsigned arrivals) {
    Worker& w = *worker;
    const void* const place = CALLER;
    use(w);
    const uintptr_t offset = offset_of(w, at), address = w.shared_base + offset;
    if (at >> RANK_SHIFT) report_and_abort(w, BAD_BARRIER, place, true, address, WAITS_ELSEWHERE);
    if (arrivals == 0 || arrivals > MOST_ARRIVALS) report_and_abort(w, BAD_BARRIER, place, true, address, BAD_ARRIVALS);
    const auto known = w.mbarriers.find(static_cast<unsigned>(offset));
    if (known != w.mbarriers.end()) {
        report(w, BAD_BARRIER, as_pc(place), true, address, IN_USE,
               {known->second.made_at, w.block_number, known->second.thread, true});
        w.mbarriers.erase(known);
    }
    if (sees_accesses(w)) on_other_access(address, 8, WRITES | UNCOUNTED, STORE, place, 8);
    Barrier barrier;
    barrier.arrivals = barrier.pending = arrivals;
    barrier.agent = agent_of_barrier(w, static_cast<unsigned>(offset));
    barrier.thread = w.current->thread;
    barrier.epoch = block_epoch(w);
    barrier.clock = w.current->clock;
    barrier.made_at = as_pc(place);
    trace(w, INITIALISED, place, offset, arrivals);
    w.mbarriers[static_cast<unsigned>(offset)] = std::move(barrier);
}

void tiledmm_barrier_invalidate(unsigned at) {
    Worker& w = *worker;
    const Found found = find_barrier(w, at, CALLER);
    if (found.owner != &w) report_and_abort(w, BAD_BARRIER, CALLER, true, w.shared_base + found.offset, WAITS_ELSEWHERE);
    for (const auto& [thread, use] : found.barrier->uses) {
        if (!checks(w) || thread == w.current->thread || use.epoch < block_epoch(w) || knows(w, thread, use.clock)) continue;
        report(w, BAD_BARRIER, as_pc(CALLER), true, w.shared_base + found.offset, STILL_USED,
               {use.place, w.block_number, thread, false});
        break;
    }
    w.mbarriers.erase(found.offset);
    if (sees_accesses(w)) on_other_access(w.shared_base + found.offset, 8, WRITES | UNCOUNTED, STORE, CALLER, 8);
}

unsigned long long tiledmm_barrier_arrive(unsigned at, unsigned arrivals, unsigned bytes, unsigned flags) {
    Worker& w = *worker;
    use(w);
    may_preempt(w);
    end_if_told(w, CALLER);
    return arrive(w, find_barrier(w, at, CALLER), arrivals, bytes, flags, CALLER);
}

void tiledmm_barrier_expect(unsigned at, unsigned bytes, unsigned) {
    Worker& w = *worker;
    use(w);
    const Found found = find_barrier(w, at, CALLER);
    if (found.barrier->pending == 0)   // the phase may complete at any time
        report(w, BAD_BARRIER, as_pc(CALLER), true, w.shared_base + found.offset, EXPECTS_LATE,
               {found.barrier->arrived_at, found.owner->block_number, found.barrier->thread, true});
    trace(*found.owner, EXPECTED, CALLER, found.offset, bytes, found.barrier->phase);
    found.barrier->bytes += bytes;
    found.barrier->expected_at = as_pc(CALLER);
    if (found.barrier->bytes > MOST_BYTES)
        report(w, BAD_BARRIER, as_pc(CALLER), true, w.shared_base + found.offset, TOO_MANY_BYTES);
}

void tiledmm_barrier_complete(unsigned at, unsigned bytes, unsigned) {
    Worker& w = *worker;
    use(w);
    const Found found = find_barrier(w, at, CALLER);
    found.barrier->bytes -= bytes;
    complete_if_all(*found.owner, found.offset, *found.barrier);
}

bool tiledmm_barrier_wait(unsigned at, unsigned long long phase, unsigned flags) {
    Worker& w = *worker;
    const void* const place = CALLER;
    use(w);
    may_preempt(w);
    end_if_told(w, place);
    Fiber& fiber = *w.current;
    const unsigned offset = find_barrier(w, at, place).offset;
    if (at >> RANK_SHIFT && owner_of(w, at) != &w)
        report_and_abort(w, BAD_BARRIER, place, false, w.shared_base + offset, WAITS_ELSEWHERE);
    const auto barrier = [&]() -> Barrier& { return w.mbarriers[offset]; };
    if (!(flags & PARITY) && phase >> 56 != TOKEN)
        report_and_abort(w, BAD_BARRIER, place, false, w.shared_base + offset, NO_TOKEN);
    if (flags & PARITY && phase > 1) report(w, BAD_BARRIER, as_pc(place), false, w.shared_base + offset, PARITY_BEYOND_1);
    const unsigned wanted = flags & PARITY ? (barrier().phase & 1) == (phase & 1) ? barrier().phase : barrier().phase - 1
                                           : static_cast<unsigned>(phase >> 32 & 0xffffff);
    const auto is_complete = [&] { return static_cast<int>(barrier().phase - wanted) > 0; };
    const bool at_once = is_complete();
    if (!at_once && !fiber.polls) trace(w, WAITS_FOR_PHASE, place, offset, 0, wanted);
    if (!at_once) {
        fiber.wait = {Wait::PHASE, place, offset, wanted, true};
        if (fiber.polls++ == 0) {
            leave(w, State::READY);   // the first try fails, as it may: who does not try again is wrong
            if (!is_complete()) return false;
        } else if (!sleep_until_over(w)) {
            return false;
        }
    }
    if (w.mbarriers.find(offset) == w.mbarriers.end()) return true;
    fiber.polls = 0;
    fiber.last_wait = {place, offset, wanted + 1, at_once};
    trace(w, PASSED, place, offset, 0, wanted);
    if (!(flags & RELAXED)) learn_phase(w, barrier(), flags);
    settle(w, barrier());
    return true;
}

unsigned tiledmm_barrier_pending(unsigned long long token) { return static_cast<unsigned>(token); }

static void fence_initialisations(Worker& w) {
    for (auto& [offset, barrier] : w.mbarriers) {
        if (barrier.fenced) continue;
        const bool known =
            barrier.thread == w.current->thread || barrier.epoch < block_epoch(w) || knows(w, barrier.thread, barrier.clock);
        if (!known) continue;
        barrier.fenced = true;
        barrier.fenced_at = w.cluster->phase;
    }
}

void tiledmm_barrier_init_fence() {
    use(*worker);
    fence_initialisations(*worker);
}

void tiledmm_proxy_fence(unsigned spaces) {
    Worker& w = *worker;
    use(w);
    Fiber& fiber = *w.current;
    fence_initialisations(w);
    ++fiber.clock;
    for (const Space space : {SHARED, GLOBAL}) {
        if (!(spaces >> space & 1)) continue;
        ProxyFence& proxy = fiber.proxy[space];
        proxy.fence = {true, block_epoch(w), fiber.clock};
        proxy.others = fiber.others;
        for (unsigned lane = 0; lane < WARP; ++lane)
            proxy.known[lane] = std::max(fiber.known[lane], w.warps[fiber.thread / WARP].full);
        proxy.known[fiber.thread % WARP] = fiber.clock;
    }
}

}   // extern "C"
#pragma GCC visibility pop
