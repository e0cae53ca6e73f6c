// Readers of a byte beyond the two that are kept beside it. A later write conflicts with one of those two if it conflicts with
// any reader, unless something orders some threads of a block or a warp and not others: then all readers are kept, as lanes of
// a warp that read at one clock.
// Depends on: state.h
#pragma once

#include "state.h"

ALWAYS_INLINE bool keeps_all_readers(const Worker& w) { return w.run->launch.uses & ORDERS_SOME; }

ALWAYS_INLINE Cell with_thread(Cell cell, unsigned thread) {
    return (cell & ~(static_cast<Cell>(CELL_THREADS - 1) << 16)) | static_cast<Cell>(thread) << 16;
}
ALWAYS_INLINE Stamp with_thread(Stamp stamp, unsigned thread) {
    return {(stamp.who & ~(0x3ffull << 22)) | static_cast<uint64_t>(thread) << 22, stamp.when};
}

// Adds a reader to those of its cell. Of a lane's reads the last counts, but a plain one stays beside strong ones.
[[gnu::noinline]] inline void add_reader(Worker& w, size_t at, Cell mine) {
    const unsigned warp = thread_of(mine) / WARP, lane = 1u << thread_of(mine) % WARP;
    auto& all = w.readers[at];
    const Cell key = with_thread(mine, warp * WARP);
    LaneReaders* same = nullptr;
    size_t left = 0;
    for (size_t i = 0; i < all.size(); ++i) {
        LaneReaders each = all[i];
        if (epoch_of(each.cell) != w.epoch) continue;
        if (each.cell != key && thread_of(each.cell) / WARP == warp && !(mine & STRONG && !(each.cell & STRONG))) each.lanes &= ~lane;
        if (!each.lanes) continue;
        all[left] = each;
        if (each.cell == key) same = &all[left];
        ++left;
    }
    all.resize(left);
    if (same) same->lanes |= lane;
    else all.push_back({key, lane});
}

// Two readers are kept, so that a later writer conflicts with one of them if it conflicts with any reader: two of
// different warps, if there are any; of one warp, the two that read last. What orders some threads and not others needs all.
ALWAYS_INLINE void keep_reader(Worker& w, size_t at, Cell mine) {
    Cell &one = w.reads[at], &two = w.more_reads[at];
    const bool all = keeps_all_readers(w);
    if (epoch_of(one) != w.epoch) {
        one = mine;
        two = 0;
    } else if (thread_of(one) == thread_of(mine)) {
        if (clock_of(one) != clock_of(mine) || !(mine & STRONG)) one = mine;   // a plain read stays beside volatile ones
    } else if (epoch_of(two) != w.epoch || thread_of(two) == thread_of(mine)) {
        two = mine;
    } else if (thread_of(one) / WARP == thread_of(two) / WARP) {
        Cell& older = clock_of(one) < clock_of(two) ? one : two;
        if (all) add_reader(w, at, older);
        older = mine;
    } else if (all) {
        add_reader(w, at, mine);
    }
}

// The same of global memory, whose readers may be in other workers.
[[gnu::noinline]] inline void add_reader(Worker& w, const uint64_t* slots, Stamp mine) {
    ReaderShard& shard = w.run->shards[reinterpret_cast<uintptr_t>(slots) / 32 % READER_SHARDS];
    const unsigned warp = mine.thread() / WARP, lane = 1u << mine.thread() % WARP;
    const Stamp key = with_thread(mine, warp * WARP);
    std::lock_guard<std::mutex> guard(shard.lock);
    if (shard.count >= MOST_READERS) return;
    auto& all = shard.readers[slots];
    for (StampReaders& each : all) {
        if (each.stamp.who == key.who && each.stamp.when == key.when) {
            each.lanes |= lane;
            return;
        }
        if (each.stamp.block() == mine.block() && each.stamp.thread() / WARP == warp && (!mine.is_strong() || each.stamp.is_strong()) &&
            !(each.stamp.bytes() & ~mine.bytes()))
            each.lanes &= ~lane;
    }
    const auto empty = [](const StampReaders& each) { return !each.lanes; };
    const auto end = std::remove_if(all.begin(), all.end(), empty);
    shard.count -= static_cast<size_t>(all.end() - end);
    all.erase(end, all.end());
    all.push_back({key, lane});
    ++shard.count;
}

// Calls a function with each further reader of a cell of shared memory, or of a granule of global memory.
template <class Look>
void for_readers(Worker& w, size_t at, Look look) {
    const auto found = w.readers.find(at);
    if (found == w.readers.end()) return;
    for (LaneReaders& each : found->second)
        for (unsigned lanes = each.lanes; lanes; lanes &= lanes - 1)
            look(with_thread(each.cell, thread_of(each.cell) + static_cast<unsigned>(__builtin_ctz(lanes))));
}

inline std::vector<StampReaders> readers_of(Worker& w, const uint64_t* slots) {
    ReaderShard& shard = w.run->shards[reinterpret_cast<uintptr_t>(slots) / 32 % READER_SHARDS];
    std::lock_guard<std::mutex> guard(shard.lock);
    const auto found = shard.readers.find(slots);
    return found == shard.readers.end() ? std::vector<StampReaders>() : found->second;
}
