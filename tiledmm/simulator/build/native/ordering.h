// Which accesses of a block are ordered: by its barriers, by named ones and mbarriers, in a cluster, and within a warp.
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

// The number of the block's first agent, behind all threads of whole warps.
ALWAYS_INLINE unsigned first_agent(const Worker& w) { return w.run->warps * WARP; }

// Whether the current thread knows that another of its block, or an agent, passed a clock in this epoch.
ALWAYS_INLINE bool knows(const Worker& w, unsigned thread, unsigned clock) {
    const Fiber& fiber = *w.current;
    if (thread / WARP == fiber.thread / WARP) {
        if (std::max(fiber.known[thread % WARP], w.warps[thread / WARP].full) > clock) return true;
    }
    return fiber.others && fiber.others->clocks[w.rank * w.members + thread] > clock;
}

// Whether what a thread knows includes what a thread of a block of its cluster did.
inline bool includes(const Worker& w, const Knowledge* known, unsigned rank, unsigned thread, unsigned epoch, unsigned clock) {
    return known && (known->epochs[rank] > epoch || known->clocks[rank * w.members + thread] > clock);
}

// ---- knowledge ----

inline void reserve(const Worker& w, Knowledge& known) {
    const size_t blocks = w.cluster->members.size();
    known.clocks.resize(blocks * w.members);
    known.epochs.resize(blocks);
}

inline void join(Knowledge& all, const Knowledge& more) {
    for (size_t i = 0; i < all.clocks.size(); ++i) all.clocks[i] = std::max(all.clocks[i], more.clocks[i]);
    for (size_t i = 0; i < all.epochs.size(); ++i) all.epochs[i] = std::max(all.epochs[i], more.epochs[i]);
}

// What a thread knows in the scope of the cluster; null for nothing.
inline const std::shared_ptr<const Knowledge>& known_in_cluster(const Fiber& fiber) {
    return fiber.in_cluster ? fiber.in_cluster : fiber.others;
}

// Whether what a thread of another block wrote is visible to the current one, which is ordered after it: an arrival or a wait
// of scope .cta in between makes it visible in its own block only.
inline bool is_visible(const Worker& w, unsigned rank, unsigned thread, unsigned epoch, unsigned clock) {
    const auto& known = w.current->in_cluster;
    return rank == w.rank || !known || includes(w, known.get(), rank, thread, epoch, clock);
}

// Adds what a thread knows, and all that it did.
inline void add_known(const Worker& w, const Fiber& fiber, Knowledge& all, const std::shared_ptr<const Knowledge>& others) {
    reserve(w, all);
    if (others) join(all, *others);
    const auto add = [&](unsigned thread, unsigned clock) {
        unsigned& known = all.clocks[w.rank * w.members + thread];
        known = std::max(known, clock);
    };
    const unsigned first = fiber.thread / WARP * WARP;
    for (unsigned lane = 0; lane < WARP && first + lane < w.run->threads; ++lane)
        add(first + lane, std::max(fiber.known[lane], w.warps[fiber.thread / WARP].full));
    add(fiber.thread, fiber.clock + 1);
    all.epochs[w.rank] = std::max(all.epochs[w.rank], block_epoch(w));
}
inline void add_known(const Worker& w, const Fiber& fiber, Knowledge& all) { add_known(w, fiber, all, fiber.others); }

// Adds to what a thread knows.
inline void learn(Worker& w, Fiber& fiber, const std::shared_ptr<const Knowledge>& more) {
    if (!more || fiber.others == more) return;
    w.has_others = true;
    const auto has = [](const std::vector<unsigned>& all, const std::vector<unsigned>& few) {
        bool has_all = true;
        for (size_t i = 0; i < few.size(); ++i) has_all &= all[i] >= few[i];
        return has_all;
    };
    if (!fiber.others || (has(more->clocks, fiber.others->clocks) && has(more->epochs, fiber.others->epochs))) {
        fiber.others = more;
        return;
    }
    auto both = std::make_shared<Knowledge>(*fiber.others);
    join(*both, *more);
    fiber.others = both;
}

inline void learn_agent(Worker& w, Fiber& fiber, unsigned agent, unsigned clock) {
    if (fiber.others && fiber.others->clocks[w.rank * w.members + agent] >= clock) return;
    auto all = fiber.others ? std::make_shared<Knowledge>(*fiber.others) : std::make_shared<Knowledge>();
    reserve(w, *all);
    all->clocks[w.rank * w.members + agent] = clock;
    w.has_others = true;
    fiber.others = all;
}

// All these threads know what each of them knows of others.
template <class Threads>
void share_others(Worker& w, const Threads& threads) {
    if (!w.has_others) return;
    if (std::any_of(std::begin(threads), std::end(threads),
                    [&](unsigned thread) { return w.fibers[thread].in_cluster != nullptr; })) {
        auto all = std::make_shared<Knowledge>();
        reserve(w, *all);
        for (const unsigned thread : threads)
            if (const auto& known = known_in_cluster(w.fibers[thread])) join(*all, *known);
        for (const unsigned thread : threads) w.fibers[thread].in_cluster = all;
    }
    std::shared_ptr<const Knowledge> first;
    bool differ = false;
    for (const unsigned thread : threads) {
        const auto& others = w.fibers[thread].others;
        if (&w.fibers[thread] != &w.fibers[*std::begin(threads)] && others != w.fibers[*std::begin(threads)].others)
            differ = true;
        if (!first) first = others;
    }
    if (!differ) return;
    auto all = std::make_shared<Knowledge>(*first);
    const Knowledge* last = first.get();
    for (const unsigned thread : threads) {
        const Knowledge* const others = w.fibers[thread].others.get();
        if (others && others != last) join(*all, *others);
        last = others ? others : last;
    }
    for (const unsigned thread : threads) w.fibers[thread].others = all;
}

// ---- agents ----

inline unsigned agent_for(Worker& w, uint64_t what) {
    const auto [found, is_new] =
        w.agent_of.try_emplace(what, first_agent(w) + static_cast<unsigned>(w.agent_of.size()) % AGENTS);
    if (is_new && w.agents.size() < AGENTS) w.agents.push_back({});
    return found->second;
}
inline Agent& agent(Worker& w, unsigned number) { return w.agents[number - first_agent(w)]; }

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

// Cells have 12 bits of a clock: before those are used up, older accesses of these threads get clock 0 of a later base.
template <class Is>
void forget_clocks(Worker& w, Is is_one) {
    constexpr Cell clock_bits = static_cast<Cell>(CELL_CLOCKS - 1) << CELL_CLOCK;
    for (auto* cells : {&w.reads, &w.more_reads, &w.writes})
        for (Cell& cell : *cells)
            if (epoch_of(cell) >= w.first_epoch && is_one(thread_of(cell))) cell &= ~clock_bits;
}
inline void rebase(Worker& w, unsigned warp) {
    unsigned latest = 0;
    for (unsigned lane = 0; lane < WARP && warp * WARP + lane < w.run->threads; ++lane)
        latest = std::max(latest, w.fibers[warp * WARP + lane].clock);
    w.warps[warp].base = latest - 1;
    forget_clocks(w, [&](unsigned thread) { return thread / WARP == warp; });
}

// A thread's clock as its cells have it.
ALWAYS_INLINE unsigned cell_clock(Worker& w, const Fiber& fiber) {
    const unsigned warp = fiber.thread / WARP;
    if (fiber.clock - w.warps[warp].base >= CELL_CLOCKS && fiber.clock > w.warps[warp].base) rebase(w, warp);
    return fiber.clock > w.warps[warp].base ? fiber.clock - w.warps[warp].base : 0;
}

// An agent's clock as its cells have it.
inline unsigned cell_clock(Worker& w, unsigned number, unsigned clock) {
    Agent& its = agent(w, number);
    if (clock > its.base && clock - its.base >= CELL_CLOCKS) {
        its.base = clock - 1;
        forget_clocks(w, [&](unsigned thread) { return thread == number; });
    }
    return clock > its.base ? clock - its.base : 0;
}

// The clock of an access of this block's that a cell keeps.
ALWAYS_INLINE unsigned full_clock(const Worker& w, Cell cell) {
    const unsigned thread = thread_of(cell), agents = first_agent(w);
    return clock_of(cell) + (thread < agents ? w.warps[thread / WARP].base : w.agents[thread - agents].base);
}
