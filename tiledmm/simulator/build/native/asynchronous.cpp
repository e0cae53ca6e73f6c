// Hopper's asynchronous instructions: mbarriers, bulk copies, TMA, clusters and wgmma (asynchronous.h).
//
// An asynchronous operation reads memory when it is issued, and writes it when it arrives: at the latest when all threads of
// the cluster wait, sooner in other orders of threads. What it accesses is checked when it is issued, as if by a thread that
// knows what the issuing thread knows; it is ordered before what threads do that have waited for it, and know its agent's
// clock.
//
// Depends on: asynchronous.h, asynchronous_memory.h, bulk_copies.h, cluster_barriers.h, clusters.h, mbarriers.h, origins.h, remote_accesses.h, state.h, warpgroups.h
#include "state.h"

struct uint3 {
    unsigned x, y, z;
};
#pragma GCC visibility push(default)
#include "asynchronous.h"
#pragma GCC visibility pop

using namespace tiledmm_detail;

#include "asynchronous_memory.h"
#include "bulk_copies.h"
#include "cluster_barriers.h"
#include "clusters.h"
#include "mbarriers.h"
#include "origins.h"
#include "remote_accesses.h"
#include "warpgroups.h"

// ---- begin and end ----

void begin_asynchronous(Worker& w) {
    const unsigned most = std::min(65536 / (w.run->warps * WARP) & ~7u, MOST_REGISTERS);   // registers of a thread
    w.is_blocked = w.is_done = w.is_asynchronous = w.has_others = false;
    w.agents.clear();
    w.agent_of.clear();
    w.mbarriers.clear();
    w.async_reads.clear();
    w.usual.clear();
    w.agent_threads.clear();
    w.sources.clear();
    w.launch_waits.clear();
    begin_origins(w);
    w.products.assign(w.run->warps, {});
    w.registers.assign(w.run->warps, most);
    w.free_registers = 0;
    w.remote.clear();
    w.last_remote.clear();
    w.at_end = {};
}

void begin_asynchronous(Fiber& fiber) {
    for (ProxyFence& proxy : fiber.proxy) {
        proxy.fence = {};
        proxy.others.reset();
    }
    fiber.in_cluster.reset();
    fiber.last_wait = {};
    fiber.polls = fiber.bulk_group = fiber.bulk_open = fiber.cluster_phase = 0;
    fiber.at_cluster = fiber.has_waited_for_launch = fiber.has_wgmma_fence = fiber.fenced_since_wait = false;
    fiber.in_flight.clear();
}

void end_asynchronous(Worker& w, Fiber& fiber) {
    Cluster& c = *w.cluster;
    if (fiber.at_cluster && fiber.cluster_phase == c.phase) {
        ++c.ended_after;
    } else {
        ++c.ended;
        complete_cluster_barrier(c);
    }
    if (!is_alone(w)) add_known(w, fiber, w.at_end);
    if (!checks(w)) return;
    w.current = &fiber;
    if (fiber.bulk_open) report(w, BAD_BULK_COPY, fiber.bulk_at, false, 0, NOT_COMMITTED);
    for (const InFlight& each : fiber.in_flight) {
        if (each.is_complete || !each.is_sum) continue;
        const bool committed = each.group < w.products[fiber.thread / WARP].committed;
        report(w, BAD_WGMMA, each.place, false, 0, committed ? WGMMA_NOT_WAITED : WGMMA_NOT_COMMITTED);
        break;
    }
    w.current = nullptr;
}

void end_asynchronous(Worker& w) {
    Cluster& c = *w.cluster;
    if (checks(w)) {
        for (const AsyncReads& each : w.async_reads) {
            const Fiber& fiber = w.fibers[each.thread];
            if (w.agent_of.count(BULK_OF_THREAD | each.thread) && w.agent_of[BULK_OF_THREAD | each.thread] == each.agent &&
                each.clock < fiber.bulk_group)
                report_of(w, each.thread, BAD_BULK_COPY, pc_of(*w.run, each.site), false, 0, READS_NOT_WAITED, {}, {});
        }
        for (const auto& [offset, barrier] : w.mbarriers)
            for (const auto* all : {&barrier.landed, &barrier.settled})
                for (const AsyncRange& each : *all)
                    report_of(*c.members[each.rank], each.thread, BAD_BULK_COPY, pc_of(*w.run, each.site), true,
                              w.shared_base + each.begin, NOT_WAITED, {}, {});
        for (const Copy& copy : c.copies) {
            for (const Copy::Target& target : copy.targets)
                if (target.rank == w.rank && !copy.arrives)
                    report_of(*c.members[copy.rank], copy.thread, BAD_BULK_COPY, copy.place, true, w.shared_base + copy.offset,
                              NOT_WAITED, {}, {});
            if (copy.reads_block && copy.rank == w.rank)
                report_of(w, copy.thread, ENDED_BLOCK, copy.place, false, w.shared_base, 0, {0, w.block_number, 0}, {2});
        }
        for (const auto& [key, access] : w.last_remote) {
            if (includes(w, w.at_end.clocks.empty() ? nullptr : &w.at_end, access.rank, access.member, access.epoch,
                         access.clock))
                continue;
            Worker& accessor = *c.members[access.rank];
            report_of(accessor, access.thread, ENDED_BLOCK, pc_of(*w.run, access.site), access.writes, accessor.shared_base, 0,
                      {0, w.block_number, 0}, {1});
        }
    }
    // What the block still copies arrives: a launch ends after that.
    for (size_t i = 0; i < c.copies.size();) {
        if (c.copies[i].rank == w.rank && c.copies[i].targets.empty()) land(w, i);
        else ++i;
    }
}
