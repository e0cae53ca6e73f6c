// Which accesses of a block are ordered: by its barriers, by named ones, and within a warp.
// Depends on: state.h
#pragma once

#include "state.h"

// The epoch of a block's threads, from 0 on.
ALWAYS_INLINE unsigned block_epoch(const Worker& w) { return static_cast<unsigned>(w.epoch - w.first_epoch) & 0xffffff; }

// Whether a barrier of the grid stands between what another block did and now: all blocks have passed the same ones.
ALWAYS_INLINE bool is_before_grid(const Worker& w, const Stamp& earlier) {
    const auto& epochs = w.run->resident.epochs;
    return earlier.block() < epochs.size() && earlier.epoch() < epochs[earlier.block()];
}

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
