// Barriers of the lanes of a warp: __syncwarp, and the exchanges of shuffles, votes, matches, reductions and tensor cores.
//
// A lane waits for those of its mask that have not ended (CUDA Programming Guide, __syncwarp and warp shuffle functions).
//
// Depends on: checks.h, fibers.h, ordering.h, releases.h, schedule.h, state.h
#pragma once

#include "checks.h"
#include "fibers.h"
#include "ordering.h"
#include "releases.h"
#include "schedule.h"
#include "state.h"

Other as_other(const Worker& w, const Fiber& fiber) {
    return {reinterpret_cast<uint64_t>(fiber.barrier), w.block_number, fiber.thread, false, false, fiber.state == State::AT_WARP ? fiber.waits_for : 0};
}

// Of the lanes that one waits for, those that wait, too; none if others are still to come. It does not wait for itself.
unsigned arrived(const Worker& w, unsigned first, unsigned lanes, const Fiber& waits) {
    unsigned present = 0;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        if (!(waits.waits_for >> lane & 1)) continue;
        const Fiber& other = w.fibers[first + lane];
        if (&other == &waits || other.state == State::AT_WARP)
            present |= 1u << lane;
        else if (other.state != State::DONE || waits.kind >= WHOLE_WARP)
            return 0;
    }
    return present;
}

constexpr unsigned OTHER_PLACE = 2;   // in place of a mask or an operation
constexpr size_t MOST_MIXED = 8;

// Lanes of different exchanges may come together, as on a GPU, until some are left over: then that is why.
[[gnu::cold]] void explain(Worker& w, Warp& warp) {
    std::lock_guard<std::mutex> guard(w.run->lock);
    for (const Finding& each : warp.mixed) keep(*w.run, each);
    warp.mixed.clear();
}

// Releases the lanes that are present, and orders their accesses before the barrier before those after it.
void pass_warp(Worker& w, unsigned first, unsigned lanes, unsigned present, const Fiber& waits) {
    const unsigned mask = waits.waits_for, kind = waits.kind;
    ++w.idle_exchanges;
    Warp& warp = w.warps[first / WARP];
    if (const unsigned ended = mask & ~present) {
        report(w, BARRIER_LEFT, reinterpret_cast<uint64_t>(waits.barrier), false, 0, 0,
               {0, w.block_number, first + static_cast<unsigned>(__builtin_ctz(ended)), false});
        explain(w, warp);
    }
    uint64_t values[WARP] = {};
    for (unsigned lane = 0; lane < lanes; ++lane)
        if (present >> lane & 1) values[lane] = w.fibers[first + lane].given;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        if (!(present >> lane & 1)) continue;
        Fiber& other = w.fibers[first + lane];
        if (other.kind != kind || other.waits_for != mask)
            report(w, WARP_DIFFERS, reinterpret_cast<uint64_t>(waits.barrier), false, 0, 1, as_other(w, other));
        else if (kind != WARP_BARRIER && other.barrier != waits.barrier && warp.mixed.size() < MOST_MIXED)
            warp.mixed.push_back(make_finding(w, WARP_DIFFERS, reinterpret_cast<uint64_t>(waits.barrier), false, 0, OTHER_PLACE, as_other(w, other)));
        other.state = State::READY;
        other.present = present;
        if (kind != WARP_BARRIER) std::memcpy(other.received, values, sizeof values);
    }
    if (kind != WARP_BARRIER) return;
    join_lanes(w, first / WARP, present, lanes);
    const bool acquires = w.acquires || w.run->released.load(std::memory_order_relaxed);
    if (!acquires && !w.has_others) return;
    std::vector<unsigned> threads;
    for (unsigned lane = 0; lane < lanes; ++lane)
        if (present >> lane & 1) threads.push_back(first + lane);
    if (acquires) share_acquired(w, threads);
    share_others(w, threads);
}

// Waits for the lanes of a mask, all of which are to wait for the same. The last one calls `when_all`, before any goes on.
void sync_warp(unsigned mask, const void* place, unsigned kind, void (*when_all)(Worker&, unsigned warp)) {
    Worker& w = *worker;
    may_preempt(w);
    Fiber& fiber = *w.current;
    const unsigned first = fiber.thread / WARP * WARP;
    const unsigned lanes = w.run->threads - first < WARP ? w.run->threads - first : WARP;
    mask &= lanes == WARP ? ~0u : (1u << lanes) - 1;
    fiber.waits_for = mask;
    if (!(mask >> fiber.thread % WARP & 1))
        report(w, WARP_DIFFERS, reinterpret_cast<uint64_t>(place), false, 0, 0, as_other(w, fiber));
    fiber.barrier = place;
    fiber.waits_for |= 1u << fiber.thread % WARP;
    fiber.kind = kind;
    const unsigned present = arrived(w, first, lanes, fiber);
    if (!present) return leave(w, State::AT_WARP);
    const auto differs = [&](unsigned lane) { return present >> lane & 1 && w.fibers[first + lane].kind != kind; };
    bool same = true;
    for (unsigned lane = 0; lane < lanes; ++lane) same = same && !differs(lane);
    if (when_all && same) when_all(w, first / WARP);   // else pass_warp says so
    pass_warp(w, first, lanes, present, fiber);
}

// After a lane has ended: releases those that waited for no other.
void release_waiting(Worker& w, unsigned first, unsigned lanes) {
    for (unsigned lane = 0; lane < lanes; ++lane) {
        Fiber& fiber = w.fibers[first + lane];
        if (fiber.state != State::AT_WARP) continue;
        const unsigned present = arrived(w, first, lanes, fiber);
        if (!present) continue;
        w.current = &fiber;   // for findings
        pass_warp(w, first, lanes, present, fiber);
        w.current = nullptr;
    }
}
