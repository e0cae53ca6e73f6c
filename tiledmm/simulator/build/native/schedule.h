// PREEMPTIVE order: threads let others run before atomics, volatile accesses, fences and barriers, and the workers of a launch
// run in turn, so that blocks are interleaved as well. The seed decides when, and so which of many orders it is.
//
// A seed's remainder is its style: all threads one operation each; at random; some lanes or a warp far behind the others; a
// block far behind the others. Counters that are one short, and locks that do not wait, show where somebody is late.
//
// Depends on: fibers.h, state.h
#pragma once

#include "fibers.h"
#include "state.h"

enum Style : unsigned { ROUND_ROBIN, AT_RANDOM, LATE_THREADS, LATE_BLOCK, STYLES };

constexpr unsigned HELD_ROUNDS = 16;   // for which a late thread is kept: the others reach a barrier, or wait for it
constexpr unsigned FREE_PREEMPTIONS = 1 << 10, FREE_CHANGES = 1 << 5;   // of a launch, before they get rare
constexpr unsigned MOST_HOLDS = 4;     // of one thread
constexpr unsigned LATE_TURNS = 64;    // of others, for each of a late block's
constexpr unsigned MOST_WAITS = 1 << 12;   // looks at threads that spin, while none gets on, after which they wait forever

ALWAYS_INLINE bool is_preemptive(const Worker& w) { return w.run->launch.order == PREEMPTIVE; }
ALWAYS_INLINE bool is_cooperative(const Worker& w) { return w.run->launch.cooperative; }
ALWAYS_INLINE Style style_of(const Run& run) { return static_cast<Style>(run.launch.seed % STYLES); }

inline uint64_t next_random(uint64_t& state) {   // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1dull >> 16;
}

// Whether a request is granted. The first are, and then fewer and fewer, so that n cost as much as about sqrt(2 n free) do:
// bugs show at the begin of a launch, or in one of many equal places.
inline bool is_granted(Turns& turns, unsigned& granted, unsigned free) {
    if (granted >= free && next_random(turns.random) % (granted / free + 1)) return false;
    ++granted;
    return true;
}

// ---- threads ----

// Which threads of a block are late: its warp, or a lane of each warp; lane 0 often acts for all.
inline void choose_stragglers(Worker& w) {
    const Run& run = *w.run;
    if (style_of(run) != LATE_THREADS) return;
    const bool whole = next_random(w.random) % 2;
    const unsigned late = next_random(w.random) % run.warps;
    for (unsigned warp = 0; warp < run.warps; ++warp) {
        const unsigned lane = next_random(w.random) % 2 ? 0 : next_random(w.random) % WARP;
        for (unsigned i = 0; i < WARP && warp * WARP + i < run.threads; ++i)
            w.fibers[warp * WARP + i].is_straggler = whole ? warp == late : i == lane;
    }
}

// Lets other lanes, other warps or other blocks run, or goes on.
[[gnu::noinline]] inline void preempt(Worker& w) {
    Fiber& fiber = *w.current;
    Turns& turns = w.run->turns;
    if (!is_granted(turns, turns.preemptions, FREE_PREEMPTIONS)) return;
    const uint64_t random = next_random(w.random);
    const auto one_in = [&](unsigned count, unsigned shift) { return (random >> shift) % count == 0; };
    State state = State::SPINS;
    switch (style_of(*w.run)) {
        case ROUND_ROBIN: w.hands_over = one_in(4, 0); break;
        case AT_RANDOM:
            if (one_in(2, 0)) return;
            if (one_in(2, 1)) state = State::READY;
            w.hands_over = one_in(4, 2);
            break;
        case LATE_THREADS:
            if (fiber.is_straggler && fiber.holds < MOST_HOLDS) {
                ++fiber.holds;
                fiber.held = HELD_ROUNDS;
            } else if (!one_in(8, 0)) {
                return;
            }
            w.hands_over = one_in(16, 3);
            break;
        default:
            w.hands_over = true;
            if (one_in(2, 0)) state = State::READY;
    }
    fiber.is_preempted = state == State::SPINS;
    leave(w, state);
}

// Whether no thread of any block has got on for so long that those that spin wait forever.
ALWAYS_INLINE bool all_wait(Worker& w) {
    if (!is_preemptive(w) && !is_cooperative(w)) return false;
    const uint64_t most = is_cooperative(w) ? SPIN_ROUNDS + 4 * w.run->blocks * w.run->threads : MOST_WAITS;
    return ++w.run->turns.waits > most;
}
ALWAYS_INLINE void get_on(Worker& w) {
    if (is_preemptive(w) || is_cooperative(w)) w.run->turns.waits.store(0, std::memory_order_relaxed);
}

ALWAYS_INLINE void may_preempt(Worker& w) {
    if (is_preemptive(w)) preempt(w);
}

// ---- workers ----

// Of a cooperative launch, in which there is a worker for each block, only those that run have something to count with.
ALWAYS_INLINE bool shares_counters(const Worker& w) { return is_cooperative(w) && w.run->launch.counts; }

inline void take_counters(Worker& w) {
    if (!shares_counters(w)) return;
    auto& all = w.run->resident.counters;
    if (all.empty()) return w.counters.begin();
    w.counters = std::move(all.back());
    all.pop_back();
}

inline void put_counters(Worker& w) {
    if (shares_counters(w) && !w.counters.log.empty()) w.run->resident.counters.push_back(std::move(w.counters));
}

inline void wait_for_turn(Turns& turns, std::unique_lock<std::mutex>& guard, Worker& w) {
    w.turn.wait(guard, [&] { return turns.current == &w; });
}

inline void choose_worker(Run& run) {
    Turns& turns = run.turns;
    const size_t count = turns.workers.size();
    if (!count) return;
    size_t next = next_random(turns.random) % count;
    const bool late = style_of(run) == LATE_BLOCK && next == turns.straggler % count;
    if (late && count > 1 && next_random(turns.random) % LATE_TURNS) next = (next + 1) % count;
    turns.current = turns.workers[next];
    turns.current->turn.notify_one();
}

// Waits until all workers have begun, so that all take part from the start; or for two seconds, if there are fewer threads.
inline void take_part(Worker& w) {
    Turns& turns = w.run->turns;
    std::unique_lock<std::mutex> guard(turns.lock);
    turns.workers.push_back(&w);
    const uint64_t expected = is_cooperative(w) ? w.run->blocks : w.run->launch.workers;
    const auto all = [&] { return turns.current || turns.workers.size() >= expected; };
    turns.begun.notify_all();
    turns.begun.wait_for(guard, std::chrono::seconds(2), all);
    if (!turns.current) choose_worker(*w.run);
    wait_for_turn(turns, guard, w);
    take_counters(w);
}

// Lets another worker run, if there is one. Those of a cluster take turns in another way (clusters.h).
inline void hand_over(Worker& w, bool must = false) {
    Turns& turns = w.run->turns;
    w.hands_over = false;
    if (w.cluster != &w.own_cluster) return;
    if (!must && !is_granted(turns, turns.changes, FREE_CHANGES)) return;
    std::unique_lock<std::mutex> guard(turns.lock);
    if (turns.workers.size() < 2) return;
    put_counters(w);
    choose_worker(*w.run);
    wait_for_turn(turns, guard, w);
    take_counters(w);
}

// Takes a worker whose turn it is out of those that take turns. The lock is held, and another one is to be chosen.
inline void leave_turns(Worker& w) {
    Turns& turns = w.run->turns;
    turns.workers.erase(std::remove(turns.workers.begin(), turns.workers.end(), &w), turns.workers.end());
    if (turns.current == &w) turns.current = nullptr;
    put_counters(w);
}

inline void give_up_turn(Worker& w) {
    Turns& turns = w.run->turns;
    std::lock_guard<std::mutex> guard(turns.lock);
    leave_turns(w);
    if (!turns.current) choose_worker(*w.run);   // there is one if this waited at a barrier of the grid when the launch was to end
}
