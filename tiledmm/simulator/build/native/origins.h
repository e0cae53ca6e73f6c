// Where the bytes that threads store to shared memory come from: the global addresses of cp.async, and of a thread's loads
// whose bytes it stores soon after. Only for kernels with wgmma, whose descriptors must lead to them in order (operands.h).
//
// A store's bytes can be read once it has been made: at the thread's next access, or when it waits. They come from a load if
// that is the only one of its latest loads with these bytes. Bytes that were computed come from nowhere, as far as is known.
//
// Depends on: shared_window.h, state.h
#pragma once

#include "shared_window.h"
#include "state.h"

inline bool keeps_origins(const Worker& w) { return !w.origins.empty(); }

inline void begin_origins(Worker& w) {
    if (!(w.run->launch.uses & MULTIPLIES) || !w.run->launch.checks) return;
    w.origins.resize(WINDOW);
    w.carried.assign(w.run->threads, {});
}

inline void keep_origin(Worker& w, uintptr_t offset, unsigned bytes, uintptr_t global) {
    const unsigned at = window_address(w, offset);
    for (unsigned i = 0; i < bytes && at + i < WINDOW; ++i) w.origins[at + i] = global ? global + i : 0;
}

// Of a copy of a structure, GCC announces the store before the load: such a store may not have been made at the next load.
inline bool is_surely_made(const Worker& w, const Carried& carried) {
    constexpr unsigned SMALLEST_STRUCTURE = 8;
    const auto* const there = reinterpret_cast<const void*>(w.shared_base + carried.offset);
    return carried.bytes < SMALLEST_STRUCTURE || std::memcmp(there, carried.before, carried.bytes) != 0;
}

// Finds the load from which the bytes of the thread's last store come.
inline void settle_store(Worker& w, unsigned thread) {
    Carried& carried = w.carried[thread];
    const bool is_made = is_surely_made(w, carried);
    const unsigned bytes = std::exchange(carried.bytes, 0);
    if (!bytes || !is_made) return;
    const auto* const stored = reinterpret_cast<const uint8_t*>(w.shared_base + carried.offset);
    const unsigned part = (1u << bytes) - 1;
    Loaded* from = nullptr;
    unsigned from_at = 0;
    for (unsigned i = 0; i < std::min(carried.count, MOST_LOADED); ++i) {
        Loaded& each = carried.loaded[i];
        for (unsigned at = 0; at + bytes <= each.bytes; at += bytes) {
            if ((each.left & part << at) != part << at || std::memcmp(each.value + at, stored, bytes) != 0) continue;
            if (from && (!each.address || from->address + from_at != each.address + at)) return;
            from = &each;
            from_at = at;
        }
    }
    if (!from) return;
    from->left &= ~(part << from_at);   // the next store of equal bytes has others
    if (from->address) keep_origin(w, carried.offset, bytes, from->address + from_at);
}

// The current thread loads.
inline void note_load(Worker& w, uintptr_t address, unsigned bytes, bool is_global) {
    Carried& carried = w.carried[w.current->thread];
    if (is_surely_made(w, carried)) settle_store(w, w.current->thread);
    if (std::exchange(carried.has_stored, false)) carried.count = 0;   // the loads of a new round
    Loaded& loaded = carried.loaded[carried.count++ % MOST_LOADED];
    loaded = {is_global ? address : 0, bytes, (1u << bytes) - 1, {}};
    std::memcpy(loaded.value, reinterpret_cast<const void*>(address), bytes);
}

// The current thread is about to store, or something else changes these bytes.
inline void note_store(Worker& w, uintptr_t offset, unsigned bytes, bool is_plain) {
    const unsigned thread = w.current->thread;
    settle_store(w, thread);
    keep_origin(w, offset, bytes, 0);
    if (!is_plain) return;
    Carried& carried = w.carried[thread];
    carried.has_stored = true;
    carried.offset = offset;
    carried.bytes = bytes;
    std::memcpy(carried.before, reinterpret_cast<const void*>(w.shared_base + offset), bytes);
}
