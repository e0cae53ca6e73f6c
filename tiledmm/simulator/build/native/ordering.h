// Which accesses are ordered: by barriers, by fences with atomics or volatile accesses, and within a warp.
// Depends on: state.h
#pragma once

#include "state.h"

// The epoch of a block's threads, from 0 on.
ALWAYS_INLINE unsigned block_epoch(const Worker& w) { return static_cast<unsigned>(w.epoch - w.first_epoch) & 0xffffff; }

// ---- release and acquire ----

// The name of a place in memory among Run::syncs: blocks have shared memory at the same addresses.
inline uint64_t place_of(const Worker& w, uintptr_t address) {
    const uintptr_t offset = address - w.shared_base;
    return offset < w.shared_span ? 1ull << 63 | w.block_number << 24 | offset : address;
}

// What the current thread did before its last fence, and what it knew, can be known to who reads a place from now on.
inline void release(Worker& w, uint64_t place) {
    Fiber& fiber = *w.current;
    if (!fiber.fences[0].done) return;
    Run& run = *w.run;
    std::lock_guard<std::mutex> guard(run.lock);
    run.released = true;
    Sync& sync = run.syncs[place];
    const unsigned version = ++sync.version, block = static_cast<unsigned>(w.block_number);
    for (const bool for_all : {false, true}) {
        const Fence fence = fiber.fences[for_all];
        if (!fence.done || (!for_all && fence.clock == fiber.fences[1].clock)) continue;   // one of all scopes says more
        sync.blocks[block].push_back({fence.epoch, 0, version, for_all});
        const auto add = [&](unsigned thread, unsigned epoch, unsigned clock) {
            sync.threads[static_cast<uint64_t>(block) << 10 | thread].push_back({epoch, clock, version, for_all});
        };
        // A fence of another thread counts, too, if a barrier stands between it and now.
        for (const Fiber& each : w.fibers) {
            const Fence& other = each.fences[for_all];
            if (&each == &fiber || (other.done && other.epoch < block_epoch(w))) add(each.thread, other.epoch, other.clock);
        }
        const unsigned first = fiber.thread / WARP * WARP;
        const Warp& warp = w.warps[fiber.thread / WARP];
        if (warp.synced && fence.epoch == block_epoch(w))
            for (unsigned lane = 0; lane < WARP && first + lane < run.threads; ++lane) {
                const unsigned known = std::max(fiber.known[lane], warp.full);
                if (known && first + lane != fiber.thread) add(first + lane, fence.epoch, known);
            }
        for (const auto* list : {&fiber.acquired, &w.acquired})
            for (const Acquired& each : *list) sync.before.push_back({each, version, block, for_all});
    }
}

inline void keep_acquired(std::vector<Acquired>& list, Acquired mine) {
    for (Acquired& each : list)
        if (each.from == mine.from) {
            each.version = std::max(each.version, mine.version);
            return;
        }
    list.push_back(mine);
}

// Takes what was released where a thread has read. The runtime is called before an access: only at the thread's next access is it
// sure that all is there that was released before the value was written.
inline void acquire(Worker& w, Fiber& fiber) {
    const uint64_t place = fiber.reads_from;
    fiber.reads_from = 0;
    Run& run = *w.run;
    if (!run.released.load(std::memory_order_relaxed)) return;
    std::lock_guard<std::mutex> guard(run.lock);
    const auto found = run.syncs.find(place);
    if (found == run.syncs.end()) return;
    keep_acquired(fiber.unfenced, {&found->second, found->second.version});
    w.acquires = true;
}

// A fence after a flag is read: what was released there is known from now on.
inline void know_unfenced(Worker& w, Fiber& fiber) {
    if (fiber.reads_from) acquire(w, fiber);
    for (const Acquired& each : fiber.unfenced) keep_acquired(fiber.acquired, each);
    fiber.unfenced.clear();
}

// Whether what a thread of a block did at a time was released at a place, or known to who released there, for a block to know.
inline bool is_released(const Acquired& known, const Stamp& earlier, unsigned block, std::vector<const Sync*>& visited) {
    const Sync& sync = *known.from;
    for (const Sync* each : visited)
        if (each == &sync) return false;
    visited.push_back(&sync);
    const auto counts = [&](const Sync::Time& time) {
        return time.version <= known.version && (time.for_all || earlier.block() == block);
    };
    const auto in_block = sync.blocks.find(earlier.block());
    if (in_block != sync.blocks.end())
        for (const Sync::Time& time : in_block->second)
            if (counts(time) && earlier.epoch() < time.epoch) return true;
    const auto of_thread = sync.threads.find(static_cast<uint64_t>(earlier.block()) << 10 | earlier.thread());
    if (of_thread != sync.threads.end())
        for (const Sync::Time& time : of_thread->second)
            if (counts(time) && earlier.epoch() == time.epoch && earlier.clock() < time.clock) return true;
    for (const Sync::Known& each : sync.before)
        if (each.version <= known.version && (each.for_all || each.block == block) &&
            is_released(each.what, earlier, each.block, visited))
            return true;
    return false;
}

inline bool is_known(const Worker& w, const std::vector<Acquired>& list, const Stamp& earlier) {
    if (list.empty()) return false;
    std::lock_guard<std::mutex> guard(w.run->lock);
    std::vector<const Sync*> visited;
    for (const Acquired& each : list)
        if (is_released(each, earlier, static_cast<unsigned>(w.block_number), visited)) return true;
    return false;
}

inline bool is_acquired(const Worker& w, const Stamp& earlier) {
    return w.acquires && (is_known(w, w.current->acquired, earlier) || is_known(w, w.acquired, earlier));
}

// Whether a flag would order what the current thread does, were there a fence after it is read.
inline bool lacks_fence(const Worker& w, const Stamp& earlier) { return w.acquires && is_known(w, w.current->unfenced, earlier); }

// At a barrier of the block, what its threads acquired is known to all of them. No fence is needed: NVIDIA's own examples have
// none between the flag, which one thread reads, and a barrier. And the same at a barrier of some threads.
void share_acquired(Worker& w);
void share_acquired(Worker& w, const std::vector<unsigned>& threads);

void fence(Worker& w, bool for_all);

// ---- within a block ----

// Whether the current thread knows that another of its block passed a clock in this epoch.
ALWAYS_INLINE bool knows(const Worker& w, unsigned thread, unsigned clock) {
    const Fiber& fiber = *w.current;
    if (thread / WARP == fiber.thread / WARP) {
        if (std::max(fiber.known[thread % WARP], w.warps[thread / WARP].full) > clock) return true;
    }
    return fiber.others && (*fiber.others)[thread] > clock;
}

// Joins what the lanes of a mask know, which is their order from now on.
inline void join_lanes(Worker& w, unsigned warp, unsigned mask, unsigned lanes) {
    Warp& all = w.warps[warp];
    Fiber* const fibers = &w.fibers[warp * WARP];
    all.synced = true;
    const unsigned whole = lanes == WARP ? ~0u : (1u << lanes) - 1;
    unsigned latest = all.full;
    if (mask == whole) {
        for (unsigned lane = 0; lane < lanes; ++lane) latest = std::max(latest, fibers[lane].clock);
        all.full = ++latest;
        for (unsigned lane = 0; lane < lanes; ++lane) fibers[lane].clock = latest;
    } else {
        unsigned joined[WARP] = {};
        for (unsigned lane = 0; lane < lanes; ++lane) {
            if (!(mask >> lane & 1)) continue;
            for (unsigned i = 0; i < lanes; ++i) joined[i] = std::max(joined[i], fibers[lane].known[i]);
            joined[lane] = std::max(joined[lane], fibers[lane].clock + 1);
        }
        for (unsigned lane = 0; lane < lanes; ++lane) {
            if (!(mask >> lane & 1)) continue;
            std::memcpy(fibers[lane].known, joined, sizeof joined);
            fibers[lane].clock = joined[lane];
            latest = std::max(latest, joined[lane]);
        }
    }
}

// Cells have 12 bits of a clock: before those are used up, older accesses of the warp get clock 0 of a later base.
inline void rebase(Worker& w, unsigned warp) {
    unsigned latest = 0;
    for (unsigned lane = 0; lane < WARP && warp * WARP + lane < w.run->threads; ++lane)
        latest = std::max(latest, w.fibers[warp * WARP + lane].clock);
    w.warps[warp].base = latest - 1;
    constexpr Cell clock_bits = static_cast<Cell>(CELL_CLOCKS - 1) << 26;
    for (auto* cells : {&w.reads, &w.more_reads, &w.writes})
        for (Cell& cell : *cells)
            if (epoch_of(cell) == w.epoch && thread_of(cell) / WARP == warp) cell &= ~clock_bits;
}

// A thread's clock as its cells have it.
ALWAYS_INLINE unsigned cell_clock(Worker& w, const Fiber& fiber) {
    const unsigned warp = fiber.thread / WARP;
    if (fiber.clock - w.warps[warp].base >= CELL_CLOCKS && fiber.clock > w.warps[warp].base) rebase(w, warp);
    return fiber.clock > w.warps[warp].base ? fiber.clock - w.warps[warp].base : 0;
}
