// Programmatic dependent launches: a launch that may begin before the launch before it has ended must execute
// griddepcontrol.wait before it accesses what that one accesses. Here launches run one after the other, so that who waited is
// only recorded.
//
// Depends on: checks.h, ordering.h, releases.h, state.h
#pragma once

#include "checks.h"
#include "ordering.h"
#include "releases.h"
#include "state.h"

// Whether the current thread has waited for the launch before, or is ordered after a thread of its cluster that has.
inline bool is_after_wait(Worker& w) {
    Fiber& fiber = *w.current;
    for (const Worker* member : w.cluster->members) {
        if (fiber.has_waited_for_launch) break;
        for (const LaunchWait& each : member->launch_waits) {
            const Stamp stamp = {member->block_number << 32 | static_cast<uint64_t>(each.thread) << 22,
                                 static_cast<uint64_t>(each.epoch) << 24 | each.clock};
            const bool is_in_block = member == &w && (each.epoch < block_epoch(w) || knows(w, each.thread, each.clock));
            if (!is_in_block && !includes(w, fiber.others.get(), member->rank, each.thread, each.epoch, each.clock) &&
                !is_acquired(w, stamp))
                continue;
            fiber.has_waited_for_launch = true;
            break;
        }
    }
    return fiber.has_waited_for_launch;
}

inline void wait_for_launch(Worker& w) {
    Fiber& fiber = *w.current;
    if (std::exchange(fiber.has_waited_for_launch, true)) return;
    w.launch_waits.push_back({fiber.thread, block_epoch(w), fiber.clock});
    ++fiber.clock;
}

// The current thread accesses an array that the launch before accesses.
[[gnu::noinline]] inline void check_pending(Worker& w, uintptr_t address, unsigned bytes, bool writes, const void* place) {
    if (!is_after_wait(w)) report(w, BEFORE_WAIT, reinterpret_cast<uint64_t>(place), writes, address, bytes);
}
