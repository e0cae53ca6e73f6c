// The barrier of a cluster, and addresses in the shared memory of its blocks.
//
// Depends on: asynchronous_memory.h, clusters.h, remote_accesses.h, schedule.h, shared_window.h
#pragma once

#include "asynchronous_memory.h"
#include "clusters.h"
#include "remote_accesses.h"
#include "schedule.h"
#include "shared_window.h"

#pragma GCC visibility push(default)
extern "C" {

unsigned tiledmm_map_shared(unsigned at, unsigned rank) {
    Worker& w = *worker;
    if (rank >= w.cluster->members.size()) report_and_abort(w, BAD_CLUSTER_BARRIER, CALLER, false, rank, NO_SUCH_RANK);
    return (at & ((1u << RANK_SHIFT) - 1)) | (rank + 1) << RANK_SHIFT;
}

void* tiledmm_map_generic(const void* at, unsigned rank) {
    Worker& w = *worker;
    if (rank >= w.cluster->members.size()) report_and_abort(w, BAD_CLUSTER_BARRIER, CALLER, false, rank, NO_SUCH_RANK);
    const auto address = reinterpret_cast<uintptr_t>(at);
    for (const Worker* each : w.cluster->members)
        if (address - each->shared_base < each->shared_span)
            return reinterpret_cast<void*>(w.cluster->members[rank]->shared_base + (address - each->shared_base));
    return const_cast<void*>(at);
}

unsigned tiledmm_rank_of(unsigned at) { return at >> RANK_SHIFT ? (at >> RANK_SHIFT) - 1 : worker->rank; }

unsigned tiledmm_rank_of_generic(const void* at) {
    const auto address = reinterpret_cast<uintptr_t>(at);
    for (const Worker* each : worker->cluster->members)
        if (address - each->shared_base < each->shared_span) return each->rank;
    return worker->rank;
}

void* tiledmm_cluster_address(unsigned at) {
    Worker& w = *worker;
    return remote_pointer(*owner_at(w, at, CALLER), at);
}

unsigned tiledmm_window_address(const void* generic) {
    const Worker& w = *worker;
    const auto address = reinterpret_cast<uintptr_t>(generic);
    for (const Worker* each : w.cluster->members)
        if (address - each->shared_base < each->shared_span)
            return window_address(*each, address - each->shared_base) | (each == &w ? 0 : (each->rank + 1) << RANK_SHIFT);
    return window_address(w, address - w.shared_base);
}

// All threads that have not ended have arrived.
static void complete_cluster_barrier(Cluster& c) {
    const size_t all = c.members.size() * c.members[0]->run->threads;
    if (!c.arrived || c.arrived + c.ended < all) return;
    c.arrived = 0;
    c.ended += std::exchange(c.ended_after, 0u);
    ++c.phase;
    c.done = std::make_shared<const Knowledge>(c.known);
    for (Worker* each : c.members) wake(*each);
}

void tiledmm_arrive_at_cluster(unsigned relaxed, unsigned aligned) {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    Cluster& c = *w.cluster;
    use(w);
    may_preempt(w);
    end_if_told(w, CALLER);
    if (aligned) sync_warp(~0u, CALLER, CLUSTER_ARRIVE);
    if (fiber.at_cluster) report_and_abort(w, BAD_CLUSTER_BARRIER, CALLER, false, 0, ARRIVES_TWICE);
    if (relaxed) reserve(w, c.known);
    else add_known(w, fiber, c.known);
    ++fiber.clock;
    trace(w, ARRIVED_AT_CLUSTER, CALLER, 0, 0, c.phase);
    fiber.at_cluster = true;
    fiber.cluster_phase = c.phase;
    ++c.arrived;
    complete_cluster_barrier(c);
}

void tiledmm_wait_at_cluster(unsigned relaxed, unsigned aligned) {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    use(w);
    end_if_told(w, CALLER);
    if (aligned) sync_warp(~0u, CALLER, CLUSTER_WAIT);
    if (!fiber.at_cluster) report_and_abort(w, BAD_CLUSTER_BARRIER, CALLER, false, 0, NOT_ARRIVED);
    fiber.wait = {Wait::CLUSTER, CALLER, 0, fiber.cluster_phase, false};
    if (!is_over(w, fiber)) trace(w, WAITS_FOR_CLUSTER, CALLER, 0, 0, fiber.cluster_phase);
    sleep_until_over(w);
    trace(w, CLUSTER_PASSED, CALLER, 0, 0, fiber.cluster_phase);
    fiber.at_cluster = false;
    if (relaxed) return;
    learn(w, fiber, w.cluster->done);
    fiber.in_cluster.reset();
}

uint3 tiledmm_cluster_size() {
    const uint32_t(&size)[3] = worker->run->launch.cluster;
    return {std::max(size[0], 1u), std::max(size[1], 1u), std::max(size[2], 1u)};
}
uint3 tiledmm_cluster_block() {
    const uint3 size = tiledmm_cluster_size();
    const Index block = worker->block;
    return {block.x % size.x, block.y % size.y, block.z % size.z};
}
uint3 tiledmm_cluster_index() {
    const uint3 size = tiledmm_cluster_size();
    const Index block = worker->block;
    return {block.x / size.x, block.y / size.y, block.z / size.z};
}
unsigned tiledmm_cluster_rank() { return worker->rank; }
bool tiledmm_has_cluster() { return worker->run->launch.cluster[0] > 0; }

}   // extern "C"
#pragma GCC visibility pop
