// Accesses to the shared memory of other blocks of the cluster.
//
// Depends on: asynchronous_memory.h, clusters.h, origins.h, readers.h, shared_window.h, state.h
#pragma once

#include "asynchronous_memory.h"
#include "clusters.h"
#include "origins.h"
#include "readers.h"
#include "shared_window.h"
#include "state.h"

// The current thread accesses another block's shared memory: the block must not end before.
void touch(Worker& w, Worker& owner, const void* place, uintptr_t offset, unsigned bytes, bool writes, unsigned site,
           unsigned agent = 0, unsigned clock = 0) {
    if (&w == &owner) return;
    if (owner.is_done) {
        report_with(w, ENDED_BLOCK, as_pc(place), writes, owner.shared_base + offset, bytes, {0, owner.block_number, 0}, {0});
        abort_launch(w);
    }
    owner.is_asynchronous = true;
    const Fiber& fiber = *w.current;
    const unsigned member = agent ? agent : fiber.thread;
    const unsigned when = agent ? clock : fiber.clock;
    owner.last_remote[{w.rank, member}] = {w.rank, fiber.thread, block_epoch(w), when, site, writes, false, member};
}

Worker* owner_at(Worker& w, unsigned at, const void* place) {
    Worker* const owner = owner_of(w, at);
    if (!owner) report_and_abort(w, BAD_CLUSTER_BARRIER, place, false, at, NO_SUCH_RANK);
    return owner;
}

void* remote_pointer(Worker& owner, unsigned at) { return reinterpret_cast<void*>(owner.shared_base + offset_of(owner, at)); }

bool on_remote_access(Worker& w, uintptr_t address, unsigned bytes, unsigned how, unsigned kind, const void* place,
                      unsigned alignment) {
    Worker* owner = nullptr;
    for (Worker* each : w.cluster->members)
        if (address - each->shared_base < each->shared_span) owner = each;
    if (!owner) return false;
    Run& run = *w.run;
    const bool writes = how & WRITES, strong = how & (IS_ATOMIC | IS_VOLATILE);
    const uintptr_t offset = address - owner->shared_base;
    if (!is_inside(*owner, offset, bytes)) report_and_abort(w, OUTSIDE_SHARED, place, writes, w.shared_base + offset, bytes);
    if (address & (alignment - 1)) report_and_abort(w, MISALIGNED, place, writes, address, alignment);
    const unsigned site = find_site(run, place, bytes, kind);
    if (run.launch.counts) record(w, address, site, SHARED);
    touch(w, *owner, place, offset, bytes, writes, site);
    if (!run.launch.checks) return true;
    if (writes && keeps_origins(*owner)) keep_origin(*owner, offset, bytes, 0);
    if ((bytes | offset) & 3 && owner->granule_shift) refine(*owner);
    const RemoteAccess mine = {w.rank, w.current->thread, block_epoch(w), w.current->clock, site, writes,
                               strong, w.current->thread};
    bool told = false;
    const auto race = [&](const Worker& of, unsigned thread, unsigned other_site, bool other_writes, unsigned unfenced = 0) {
        if (std::exchange(told, true)) return;
        Other other = other_at(of, thread, pc_of(run, other_site), other_writes);
        other.unfenced = unfenced;
        report(w, RACE_SHARED, as_pc(place), writes, w.shared_base + offset, bytes, other);
    };
    size_t unset = 0, count = 0;
    for (size_t i = offset >> owner->granule_shift; i << owner->granule_shift < offset + bytes; ++i, ++count) {
        const Cell written = owner->writes[i];
        auto& all = owner->remote[i];
        if (is_of_block(*owner, written) && is_agent(*owner, written)) {
            if ((written & IN_FLIGHT || !is_ordered(w, *owner, written)) && !std::exchange(told, true))
                report_unfinished(w, *owner, written, offset, bytes, writes, as_pc(place));
        } else if (is_of_block(*owner, written)) {
            const bool is_before = is_ordered(w, *owner, written);
            const bool is_seen = writes || is_visible(w, owner->rank, thread_of(written), epoch_in_block(*owner, written),
                                                      full_clock(*owner, written));
            if (!(strong && written & STRONG) && !(is_before && is_seen))
                race(*owner, thread_of(written), site_of(written), true, is_before ? IN_BLOCK_ONLY : 0);
        } else if (!writes && std::none_of(all.begin(), all.end(), [](const RemoteAccess& each) { return each.writes; })) {
            ++unset;
        }
        const auto look = [&](Cell read) {
            if (is_of_block(*owner, read) && !(strong && read & STRONG) && !is_ordered(w, *owner, read))
                race(*owner, is_agent(*owner, read) ? 0 : thread_of(read), site_of(read), false);
        };
        if (writes) {
            look(owner->reads[i]);
            look(owner->more_reads[i]);
            if (!owner->readers.empty()) for_readers(*owner, i, look);
        }
        for (const RemoteAccess& each : all)
            if ((writes || each.writes) && !(strong && each.is_strong) && !is_ordered(w, each))
                race(*w.cluster->members[each.rank], each.thread, each.site, each.writes);
        // Who does not know of an access before this one, does not know of this one either.
        all.erase(std::remove_if(all.begin(), all.end(),
                                 [&](const RemoteAccess& each) { return (writes || !each.writes) && is_ordered(w, each); }),
                  all.end());
        all.push_back(mine);
    }
    if (unset == count) report(w, UNINITIALISED_SHARED, as_pc(place), false, w.shared_base + offset, bytes);
    unsigned asked = 0;
    if (writes) check_async_reads(w, *owner, offset, bytes, as_pc(place), asked);
    return true;
}
