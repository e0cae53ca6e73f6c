// Addresses in shared memory as numbers, as in PTX: each array begins at a multiple of 1024 bytes of a window of 256 KiB, which is
// what a matrix descriptor can address. A page behind each belongs to no array. Of another block of the cluster, an address has
// the block's rank plus one in its highest bits.
//
// Depends on: state.h
#pragma once

#include "state.h"

constexpr unsigned PAGE_BITS = 10, WINDOW = 1 << 18, RANK_SHIFT = 24;
constexpr unsigned NOWHERE_IN_WINDOW = 0xffffff;

inline void lay_out_window(Worker& w) {
    w.window.assign(w.slots.size(), NOWHERE_IN_WINDOW);
    w.pages.clear();
    size_t bytes = 0, arrays = 0;
    for (const Slot& slot : w.slots) bytes += (slot.bytes + 1023) >> PAGE_BITS << PAGE_BITS, arrays += slot.bytes && slot.bytes < 1u << SLOT_BITS;
    const unsigned gap = bytes + (arrays + 1) * 1024 <= WINDOW;
    w.pages.resize(gap, NOWHERE_IN_WINDOW);   // as on a GPU, the first 1024 bytes are the system's
    for (size_t slot = 0; slot < w.slots.size(); ++slot) {
        const unsigned used = w.slots[slot].bytes;
        if (!used) continue;
        w.window[slot] = static_cast<unsigned>(w.pages.size()) << PAGE_BITS;
        const unsigned whole = used == 1u << SLOT_BITS, count = ((used + 1023) >> PAGE_BITS) + (whole ? 0 : gap);
        for (unsigned page = 0; page < count; ++page) w.pages.push_back(static_cast<unsigned>(slot << SLOT_BITS) + (page << PAGE_BITS));
    }
}

// The address of an offset in a block's shared memory.
inline unsigned window_address(const Worker& w, uintptr_t offset) {
    if (offset >= w.shared_span) return static_cast<unsigned>(offset) | NOWHERE_IN_WINDOW;
    return w.window[offset >> SLOT_BITS] + static_cast<unsigned>(offset & ((1u << SLOT_BITS) - 1));
}

// The offset of an address, in whichever block it is; behind all arrays for one that is nowhere.
inline uintptr_t offset_of(const Worker& w, unsigned at) {
    const unsigned page = (at & ((1u << RANK_SHIFT) - 1)) >> PAGE_BITS;
    if (page >= w.pages.size() || w.pages[page] == NOWHERE_IN_WINDOW) return w.shared_span + (at & 0xffff);
    return w.pages[page] + (at & 1023);
}

// The block of the cluster that an address is in; null for none.
inline Worker* owner_of(Worker& w, unsigned at) {
    const unsigned rank = at >> RANK_SHIFT;
    if (!rank) return &w;
    return rank - 1 < w.cluster->members.size() ? w.cluster->members[rank - 1] : nullptr;
}
