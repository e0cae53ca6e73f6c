// What fences with atomics or volatile accesses order: release and acquire.
// Depends on: ordering.h, state.h
#pragma once

#include "ordering.h"
#include "state.h"

// The name of a place in memory among Run::syncs: blocks have shared memory at the same addresses.
inline uint64_t place_of(const Worker& w, uintptr_t address) {
    const uintptr_t offset = address - w.shared_base;
    return offset < w.shared_span ? 1ull << 63 | w.block_number << 24 | offset : address;
}

inline uint64_t key_of(unsigned block, unsigned thread, unsigned audience) {
    return static_cast<uint64_t>(block) << 12 | thread << 2 | audience;
}

// Adds what is released at a key. What was released there since the last store still holds, so each entry says all of it.
inline void add_time(std::vector<Sync::Time>& times, Sync::Time now) {
    if (!times.empty() && times.back().version >= now.since) {
        const Sync::Time& last = times.back();
        if (std::pair(last.epoch, last.clock) > std::pair(now.epoch, now.clock)) now.epoch = last.epoch, now.clock = last.clock;
        now.since = std::min(now.since, last.since);
    }
    times.push_back(now);
}

// What the current thread did before its last fence, and what it knew, can be known to who reads a place from now on.
// The run is locked.
inline void release(Worker& w, uint64_t place, bool is_store) {
    Fiber& fiber = *w.current;
    Run& run = *w.run;
    const bool tells_unfenced = !is_store && run.launch.uses & HAS_VOLATILE;
    if (!fiber.fences[OWN_BLOCK].done && !tells_unfenced && !(is_store && run.syncs.count(place))) return;
    run.released = true;
    Sync& sync = run.syncs[place];
    const unsigned version = ++sync.version, block = static_cast<unsigned>(w.block_number);
    if (is_store) sync.since = version;
    const auto add = [&](unsigned thread, unsigned epoch, unsigned clock, Audience audience) {
        add_time(sync.threads[key_of(block, thread, audience)], {epoch, clock, sync.since, version});
    };
    std::shared_ptr<const std::vector<Acquired>> known;
    if (!fiber.acquired.empty() || !w.acquired.empty()) {
        auto all = std::make_shared<std::vector<Acquired>>(fiber.acquired);
        all->insert(all->end(), w.acquired.begin(), w.acquired.end());
        known = all;
    }
    for (const Audience audience : {OWN_BLOCK, ALL_BLOCKS}) {
        const Fence fence = fiber.fences[audience];
        if (!fence.done || (audience == OWN_BLOCK && fence.clock == fiber.fences[ALL_BLOCKS].clock)) continue;   // one of all says more
        add_time(sync.blocks[key_of(block, 0, audience)], {fence.epoch, 0, sync.since, version});
        // A fence of another thread counts, too, if a barrier stands between it and now.
        for (const Fiber& each : w.fibers) {
            const Fence& other = each.fences[audience];
            if (&each == &fiber || (other.done && other.epoch < block_epoch(w))) add(each.thread, other.epoch, other.clock, audience);
        }
        const unsigned first = fiber.thread / WARP * WARP;
        const Warp& warp = w.warps[fiber.thread / WARP];
        if (warp.synced && fence.epoch == block_epoch(w))
            for (unsigned lane = 0; lane < WARP && first + lane < run.threads; ++lane) {
                const unsigned clock = std::max(fiber.known[lane], warp.full);
                if (clock && first + lane != fiber.thread) add(first + lane, fence.epoch, clock, audience);
            }
        if (known) sync.before.push_back({known, version, block, audience});
    }
    // Its first atomic there, as at the counter by which the last block is found: later ones may be of loops over tickets, and
    // what is written between two tickets is no message.
    if (tells_unfenced && !sync.threads.count(key_of(block, fiber.thread, UNFENCED))) {
        add_time(sync.blocks[key_of(block, 0, UNFENCED)], {block_epoch(w), 0, sync.since, version});
        add(fiber.thread, block_epoch(w), ++fiber.clock, UNFENCED);
    }
}

// Keeps several ranges of versions of a place, because what a store replaced between them was not read; of many, the oldest
// become one.
inline void keep_acquired(std::vector<Acquired>& list, Acquired mine) {
    constexpr unsigned MOST = 4;
    Acquired* oldest[2] = {};
    unsigned count = 0;
    for (Acquired& each : list) {
        if (each.from != mine.from) continue;
        if (mine.since <= each.version && each.since <= mine.version) {
            each = {mine.from, std::min(each.since, mine.since), std::max(each.version, mine.version)};
            return;
        }
        if (count < 2) oldest[count] = &each;
        ++count;
    }
    if (count >= MOST) {
        oldest[0]->since = std::min(oldest[0]->since, oldest[1]->since);
        oldest[0]->version = std::max(oldest[0]->version, oldest[1]->version);
        *oldest[1] = mine;
    } else {
        list.push_back(mine);
    }
}

// Before a volatile read: where it reads from. The runtime is called before an access: only at the thread's next access is it
// sure that all is there that was released before the value was written. By then a store may have replaced it.
inline void begin_to_acquire(Worker& w, uint64_t place) {
    Fiber& fiber = *w.current;
    Run& run = *w.run;
    fiber.reads_from = place;
    fiber.reads_since = 0;
    if (!run.released.load(std::memory_order_relaxed)) return;
    std::lock_guard<std::mutex> guard(run.lock);
    const auto found = run.syncs.find(place);
    if (found != run.syncs.end()) fiber.reads_since = found->second.since;
}

inline void acquire(Worker& w, Fiber& fiber) {
    const uint64_t place = fiber.reads_from;
    fiber.reads_from = 0;
    Run& run = *w.run;
    if (!run.released.load(std::memory_order_relaxed)) return;
    std::lock_guard<std::mutex> guard(run.lock);
    const auto found = run.syncs.find(place);
    if (found == run.syncs.end() || !found->second.version) return;
    keep_acquired(fiber.unfenced, {&found->second, fiber.reads_since, found->second.version});
    w.acquires = true;
}

// An atomic takes what was released at its place and, if it changes the value, releases what the thread fenced: one that
// changes nothing tells nobody anything. The run is locked, from before the value changes.
inline void synchronize_atomic(Worker& w, uint64_t place, bool changes) {
    const auto found = w.run->syncs.find(place);
    if (found != w.run->syncs.end() && found->second.version) {
        keep_acquired(w.current->unfenced, {&found->second, found->second.since, found->second.version});
        w.acquires = true;
    }
    if (changes) release(w, place, false);
}

// A fence after a flag is read: what was released there is known from now on.
inline void know_unfenced(Worker& w, Fiber& fiber) {
    if (fiber.reads_from) acquire(w, fiber);
    for (const Acquired& each : fiber.unfenced) keep_acquired(fiber.acquired, each);
    fiber.unfenced.clear();
}

// The latest of some times that a reader of these versions knows, and those before it that it does not include.
template <class Is>
bool any_time(const std::vector<Sync::Time>& times, const Acquired& known, Is is_before) {
    unsigned limit = known.version;
    auto at = times.end();
    for (;;) {
        at = std::upper_bound(times.begin(), at, limit, [](unsigned most, const Sync::Time& time) { return most < time.version; });
        if (at == times.begin() || (--at)->version < known.since) return false;
        if (is_before(*at)) return true;
        if (!at->since || at->since <= known.since) return false;
        limit = at->since - 1;
    }
}

// Whether what a thread of a block did at a time was released, for a block to know, at a place that is in a list, or known to
// who released there.
inline bool is_known(const Worker& w, const std::vector<Acquired>& list, const Stamp& earlier, bool with_unfenced = false) {
    if (list.empty()) return false;
    struct Step {
        Acquired what;
        unsigned block;
    };
    std::lock_guard<std::mutex> guard(w.run->lock);
    std::vector<Step> steps;
    std::unordered_map<uint64_t, std::vector<Acquired>> visited;   // by place and block
    for (const Acquired& each : list) steps.push_back({each, static_cast<unsigned>(w.block_number)});
    while (!steps.empty()) {
        const auto [what, block] = steps.back();
        steps.pop_back();
        auto& ranges = visited[reinterpret_cast<uintptr_t>(what.from) * 0x9e3779b97f4a7c15ull ^ block];
        const Acquired& mine = what;
        if (std::any_of(ranges.begin(), ranges.end(), [&](const Acquired& each) { return each.since <= mine.since && mine.version <= each.version; })) continue;
        ranges.push_back(what);
        const Sync& sync = *what.from;
        const auto tells = [&, asks = block](unsigned audience, unsigned from) {
            return audience == ALL_BLOCKS || (audience == OWN_BLOCK && from == asks) || (audience == UNFENCED && with_unfenced);
        };
        for (const unsigned audience : {OWN_BLOCK, ALL_BLOCKS, UNFENCED}) {
            if (!tells(audience, earlier.block())) continue;
            const auto of_block = sync.blocks.find(key_of(earlier.block(), 0, audience));
            if (of_block != sync.blocks.end() &&
                any_time(of_block->second, what, [&](const Sync::Time& time) { return earlier.epoch() < time.epoch; }))
                return true;
            const auto of_thread = sync.threads.find(key_of(earlier.block(), earlier.thread(), audience));
            if (of_thread != sync.threads.end() && any_time(of_thread->second, what, [&](const Sync::Time& time) {
                    return earlier.epoch() < time.epoch || (earlier.epoch() == time.epoch && earlier.clock() < time.clock);
                }))
                return true;
        }
        auto at = std::upper_bound(sync.before.begin(), sync.before.end(), what.version,
                                   [](unsigned most, const Sync::Known& each) { return most < each.version; });
        while (at != sync.before.begin() && (--at)->version >= what.since) {
            if (!tells(at->audience, at->block)) continue;
            for (const Acquired& each : *at->what)
                if (each.from != &sync || each.since < what.since) steps.push_back({each, at->block});
        }
    }
    return false;
}

inline bool is_acquired(const Worker& w, const Stamp& earlier) {
    return w.acquires && (is_known(w, w.current->acquired, earlier) || is_known(w, w.acquired, earlier));
}

// Whether a flag would order the current access after an earlier one: 1 were there a fence after the flag is read, 2 were there
// one before it is written, 0 if none would.
inline unsigned lacks_fence(const Worker& w, const Stamp& earlier) {
    if (!w.acquires) return 0;
    const Fiber& fiber = *w.current;
    if (is_known(w, fiber.unfenced, earlier)) return 1;
    if (!(w.run->launch.uses & HAS_VOLATILE)) return 0;
    for (const auto* list : {&fiber.acquired, &fiber.unfenced, &w.acquired})
        if (is_known(w, *list, earlier, true)) return 2;
    return 0;
}

// At a barrier of the block, what its threads acquired is known to all of them. No fence is needed: NVIDIA's own examples have
// none between the flag, which one thread reads, and a barrier. And the same at a barrier of some threads.
void share_acquired(Worker& w);
void share_acquired(Worker& w, const std::vector<unsigned>& threads);

void fence(Worker& w, bool for_all);
