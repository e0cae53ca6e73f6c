// Clusters: blocks that run together. Each has a worker of its own, and so its own copy of the shared memory; one of them runs
// at a time, until all its threads wait for what others or asynchronous operations do. If all blocks wait, a copy in flight
// arrives; if there is none, waits that may fail do; and if that changes nothing, they wait forever.
//
// Depends on: checks.h, ordering.h, schedule.h, state.h
#pragma once

#include "checks.h"
#include "ordering.h"
#include "schedule.h"
#include "state.h"

constexpr unsigned MOST_FAILURES = 4;   // of all waits, without progress in between

inline bool is_alone(const Worker& w) { return w.cluster == &w.own_cluster; }   // members may still be joining others

inline unsigned blocks_of_cluster(const Run& run) {
    const uint32_t(&size)[3] = run.launch.cluster;
    return std::max(size[0] * size[1] * size[2], 1u);
}

// The number of the block with a rank in a cluster of the launch.
inline uint64_t block_in_cluster(const Run& run, uint64_t cluster, unsigned rank) {
    const uint32_t(&size)[3] = run.launch.cluster;
    const unsigned blocks = blocks_of_cluster(run);
    if (blocks == 1) return run.launch.chosen ? run.launch.chosen[cluster] : cluster;
    Index of = {};
    if (run.launch.chosen) {
        const Index block = index_of(run, run.launch.chosen[cluster * blocks]);
        of = {block.x / size[0], block.y / size[1], block.z / size[2]};
    } else {
        const uint64_t x = run.grid.x / size[0], y = run.grid.y / size[1];
        of = {static_cast<unsigned>(cluster % x), static_cast<unsigned>(cluster / x % y),
              static_cast<unsigned>(cluster / (x * y))};
    }
    const uint64_t x = of.x * size[0] + rank % size[0], y = of.y * size[1] + rank / size[0] % size[1],
                   z = of.z * size[2] + rank / (size[0] * size[1]);
    return x + run.grid.x * (y + static_cast<uint64_t>(run.grid.y) * z);
}

// ---- turns ----

// A worker joins a cluster that lacks one.
inline void join_cluster(Worker& w) {
    Run& run = *w.run;
    const unsigned blocks = blocks_of_cluster(run);
    if (blocks == 1) {
        w.cluster = &w.own_cluster;
        w.cluster->members = {&w};
        return;
    }
    std::lock_guard<std::mutex> guard(run.lock);
    if (run.clusters.empty() || run.clusters.back()->members.size() == blocks)
        run.clusters.push_back(std::make_unique<Cluster>());
    w.cluster = run.clusters.back().get();
    w.rank = static_cast<unsigned>(w.cluster->members.size());
    w.cluster->members.reserve(blocks);
    w.cluster->members.push_back(&w);
}

// Waits for all workers of the cluster; the last one calls `then` before the others go on. Returns false if some do not come.
template <class Then>
bool meet(Worker& w, Then then) {
    constexpr auto LOOK_AT_STOP = std::chrono::milliseconds(250);
    Cluster& c = *w.cluster;
    std::unique_lock<std::mutex> guard(c.lock);
    const uint64_t begun = c.begun;
    if (++c.arrived_workers == blocks_of_cluster(*w.run)) {
        c.arrived_workers = 0;
        then();
        ++c.begun;
        c.changed.notify_all();
    }
    while (c.begun == begun)
        if (c.changed.wait_for(guard, LOOK_AT_STOP) == std::cv_status::timeout && is_stopping(*w.run)) return c.begun != begun;
    return true;
}

inline void wait_for_rank(Worker& w, std::unique_lock<std::mutex>& guard) {
    w.cluster->changed.wait(guard, [&] { return w.cluster->current == w.rank; });
}

// Lets another block run that does not wait, or any that has not ended. Returns whether there was one.
inline bool pass_turn(Worker& w, bool to_any = false) {
    Cluster& c = *w.cluster;
    if (is_alone(w)) return false;
    std::unique_lock<std::mutex> guard(c.lock);
    const size_t blocks = c.members.size();
    const size_t skip = w.run->launch.order == FORWARD ? 0 : next_random(c.random) % blocks;
    for (size_t i = 0; i < blocks; ++i) {
        const Worker& other = *c.members[(w.rank + 1 + (i + skip) % blocks) % blocks];
        if (&other == &w || other.is_done || (other.is_blocked && !to_any)) continue;
        c.current = other.rank;
        c.changed.notify_all();
        if (!w.is_done) wait_for_rank(w, guard);
        return true;
    }
    return false;
}

// ---- waiting ----

inline bool is_over(Worker& w, const Fiber& fiber) {
    const Waiting& wait = fiber.wait;
    switch (wait.what) {
        case Wait::PHASE: {
            const auto found = w.mbarriers.find(wait.barrier);
            return found == w.mbarriers.end() || found->second.phase > wait.phase;
        }
        case Wait::CLUSTER: return w.cluster->phase > wait.phase;
        case Wait::WARPGROUP: {
            const unsigned first = fiber.thread / WARP / 4 * 4;
            for (unsigned warp = first; warp < first + 4; ++warp)
                if (w.products[warp].committed < wait.phase) return false;
            return true;
        }
        case Wait::REGISTERS: return w.free_registers >= wait.phase || w.registers[fiber.thread / WARP] >= wait.barrier;
    }
    return true;
}

// Lets threads go on whose waits are over.
inline void wake(Worker& w) {
    ++w.cluster->progress;
    for (Fiber& fiber : w.fibers) {
        if (fiber.state != State::AT_PHASE || !is_over(w, fiber)) continue;
        fiber.state = State::READY;
        w.is_blocked = false;
    }
    w.spin_rounds = 0;
    get_on(w);
}

// Waits until what Fiber::wait says; returns false if the wait has failed.
inline bool sleep_until_over(Worker& w) {
    Fiber& fiber = *w.current;
    if (is_over(w, fiber)) return true;
    fiber.barrier = fiber.wait.place;
    leave(w, State::AT_PHASE);
    return is_over(w, fiber);
}

// Lanes that wait at an instruction of the whole warp, while another lane has come to a barrier of the cluster without them:
// one finding for each warp.
inline void report_divergent_lanes(Worker& w) {
    for (unsigned warp = 0; warp < w.run->warps; ++warp) {
        const Fiber* const first = &w.fibers[warp * WARP];
        const Fiber* const last = first + std::min(w.run->threads - warp * WARP, WARP);
        const auto one = std::find_if(
            first, last, [](const Fiber& each) { return each.state == State::AT_WARP && each.kind >= WHOLE_WARP; });
        const auto other = std::find_if(
            first, last, [](const Fiber& each) { return each.state == State::AT_PHASE && each.wait.what == Wait::CLUSTER; });
        if (one == last || other == last) continue;
        w.current = &w.fibers[one->thread];
        report(w, WARP_NOT_REACHED, reinterpret_cast<uint64_t>(one->barrier), false, 0, 0,
               {reinterpret_cast<uint64_t>(other->wait.place), w.block_number, other->thread, false});
        w.current = nullptr;
    }
}

// What threads of the cluster wait for, all of them forever: a finding for each place and barrier.
// details: what it is | its number << 8; arrivals that are missing | all << 32; expected bytes less copied; how many threads
// wait. Of the cluster's barrier, threads that have arrived | all << 32; of registers, those that are free, and how many a
// thread waits for.
inline void report_deadlock(Cluster& c) {
    for (Worker* each : c.members) {
        Worker& w = *each;
        if (w.is_done) continue;
        report_divergent_lanes(w);
        std::map<std::tuple<const void*, unsigned, unsigned>, std::pair<Fiber*, uint64_t>> all;
        for (Fiber& fiber : w.fibers) {
            if (fiber.state != State::AT_PHASE) continue;
            auto& entry = all[{fiber.wait.place, fiber.wait.barrier, fiber.wait.phase}];
            if (!entry.second++) entry.first = &fiber;
        }
        for (const auto& [key, entry] : all) {
            const Waiting& wait = entry.first->wait;
            w.current = entry.first;
            Other other;
            uint64_t details[4] = {static_cast<uint64_t>(wait.what) | static_cast<uint64_t>(wait.phase) << 8, 0, 0,
                                   entry.second};
            const auto found = w.mbarriers.find(wait.barrier);
            if (wait.what == Wait::PHASE && found != w.mbarriers.end()) {
                const Barrier& barrier = found->second;
                details[1] = barrier.pending | static_cast<uint64_t>(barrier.arrivals) << 32;
                details[2] = static_cast<uint64_t>(barrier.bytes);
                other.pc = barrier.expected_at && barrier.bytes ? barrier.expected_at
                           : barrier.arrived_at                 ? barrier.arrived_at
                                                                : barrier.made_at;
            }
            if (wait.what == Wait::REGISTERS) details[1] = w.free_registers, details[2] = wait.barrier;
            if (wait.what == Wait::CLUSTER)
                details[1] = c.arrived | static_cast<uint64_t>(c.members.size() * w.run->threads) << 32;
            Finding finding = make_finding(w, DEADLOCK, reinterpret_cast<uint64_t>(wait.place), false,
                                           w.shared_base + wait.barrier, 8, other);
            std::memcpy(finding.details, details, sizeof details);
            report(w, finding);
            w.current = nullptr;
        }
    }
}

void land(Worker& w, size_t number);   // a copy in flight arrives (bulk_copies.h)

// A copy in flight arrives: the first, or any.
inline void land_one(Worker& w) {
    Cluster& c = *w.cluster;
    const uint32_t order = w.run->launch.order;
    land(w, order == FORWARD ? 0 : order == REVERSE ? c.copies.size() - 1 : next_random(c.random) % c.copies.size());
}

// All blocks of the cluster wait. Returns false if they do so forever.
inline bool let_time_pass(Worker& w) {
    Cluster& c = *w.cluster;
    if (!c.copies.empty()) {
        land_one(w);
        return true;
    }
    if (c.progress != c.seen_progress) c.failures = 0;
    c.seen_progress = c.progress;
    bool any = false;
    if (c.failures++ < MOST_FAILURES)
        for (Worker* each : c.members)
            for (Fiber& fiber : each->fibers) {
                if (each->is_done || fiber.state != State::AT_PHASE || !fiber.wait.may_fail) continue;
                fiber.state = State::READY;
                each->is_blocked = false;
                any = true;
            }
    if (any) return true;
    report_deadlock(c);
    stop_all(*w.run);
    return false;
}

inline bool has_ready(const Worker& w) {
    return std::any_of(w.fibers.begin(), w.fibers.end(), [](const Fiber& each) { return each.state == State::READY; });
}

// The block's threads wait for others: lets other blocks run, or time pass. Returns false if the block is to end.
inline bool await_others(Worker& w) {
    w.is_blocked = true;
    while (!has_ready(w)) {
        if (is_stopped(w)) return false;
        if (!pass_turn(w) && !let_time_pass(w)) return false;
    }
    w.is_blocked = false;
    return true;
}

// Where threads of the block can run, others may, too: in some orders, and where those of this block wait for what others
// write.
inline void let_cluster_run(Worker& w, bool spins) {
    Cluster& c = *w.cluster;
    if (!c.copies.empty() && (spins || next_random(c.random) % 2)) land_one(w);
    if (!is_alone(w) && (spins || next_random(c.random) % 2)) pass_turn(w);
}

// ---- begin and end ----

void begin_asynchronous(Worker& w);                  // of a block (asynchronous.cpp)
void begin_asynchronous(Fiber& fiber);
void end_asynchronous(Worker& w, Fiber& fiber);      // of a thread
void end_asynchronous(Worker& w);                    // of a block

// The number of the next cluster, in the order in which they begin.
inline uint64_t next_cluster(Worker& w) {
    Run& run = *w.run;
    Cluster& c = *w.cluster;
    const auto next = [&] {
        c.number = run.next.fetch_add(1);
        c.ends = c.number * c.members.size() >= run.blocks || is_stopping(run);
        c.current = 0;
        c.random = (run.launch.seed + 1) * 0x9e3779b97f4a7c15ull ^ (c.number + 1) * 0x94d049bb133111ebull;
        c.copies.clear();
        c.failures = c.arrived = c.phase = c.ended = c.ended_after = 0;
        c.known = {};
        c.done.reset();
    };
    if (is_alone(w)) next();
    else if (!meet(w, next)) c.ends = true;
    return c.number;
}

// Waits until the other blocks of the cluster have begun, and for its turn. Returns whether the block runs.
inline bool begin_in_cluster(Worker& w) {
    if (is_alone(w)) return true;
    if (!meet(w, [] {})) return false;
    std::unique_lock<std::mutex> guard(w.cluster->lock);
    wait_for_rank(w, guard);
    return true;
}

inline void end_in_cluster(Worker& w) {
    if (!w.aborted) end_asynchronous(w);
    w.is_done = true;
    pass_turn(w, true);
}
