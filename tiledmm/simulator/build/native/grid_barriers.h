// Cooperative launches: all blocks are resident, and their threads may wait for each other at barriers of the grid.
//
// Each block has a worker of its own, and so its own copy of the shared memory. As many workers run at a time as there are
// cores: one whose threads wait for other blocks gives its core to the next. In the order PREEMPTIVE one runs at a time
// (schedule.h), and those that wait at a barrier of the grid take no turns.
//
// Depends on: checks.h, schedule.h, state.h, warp_barriers.h
#pragma once

#include "checks.h"
#include "schedule.h"
#include "state.h"
#include "warp_barriers.h"

constexpr auto LOOK_AT_STOP = std::chrono::milliseconds(250);   // how often a worker that waits looks whether the launch is to end

// ---- cores ----

// Gives free cores to those that have waited longest. Turns::lock is held, here and below.
inline void give_cores(Grid& grid) {
    size_t given = 0;
    for (; grid.cores && given < grid.queue.size(); ++given, --grid.cores) {
        Worker& next = *grid.queue[given];
        take_counters(next);
        next.runs = true;
        next.turn.notify_one();
    }
    grid.queue.erase(grid.queue.begin(), grid.queue.begin() + static_cast<std::ptrdiff_t>(given));
}

inline void release_core(Worker& w) {
    Grid& grid = w.run->resident;
    if (!std::exchange(w.runs, false)) return;
    put_counters(w);
    ++grid.cores;
    give_cores(grid);
}

// Waits until a worker may run. Returns false if the launch is to end.
template <class May>
bool wait_to_run(Worker& w, std::unique_lock<std::mutex>& guard, May may) {
    while (!may()) {
        if (is_stopping(*w.run)) {
            Grid& grid = w.run->resident;
            for (auto* all : {&grid.queue, &grid.at_barrier}) all->erase(std::remove(all->begin(), all->end(), &w), all->end());
            return false;
        }
        w.turn.wait_for(guard, LOOK_AT_STOP);
    }
    return true;
}

// Before a block begins: waits for all others, so that they run in the order of their numbers, and for a core.
inline bool wait_for_all(Worker& w) {
    Run& run = *w.run;
    Grid& grid = run.resident;
    std::unique_lock<std::mutex> guard(run.turns.lock);
    grid.queue.push_back(&w);
    if (++grid.begun == run.blocks) {
        std::sort(grid.queue.begin(), grid.queue.end(), [](auto* a, auto* b) { return a->block_number < b->block_number; });
        grid.cores = run.launch.workers;
        give_cores(grid);
    }
    return wait_to_run(w, guard, [&] { return w.runs; });
}

// Where threads wait for what another block does: lets the others run.
inline void let_others_run(Worker& w) {
    Run& run = *w.run;
    std::unique_lock<std::mutex> guard(run.turns.lock);
    if (run.resident.queue.empty()) return;
    run.resident.queue.push_back(&w);
    release_core(w);
    wait_to_run(w, guard, [&] { return w.runs; });
}

// ---- barriers of the grid ----

// A block waits at a barrier of the grid, all others wait there or have ended, and some have ended: nobody goes on.
inline void report_ended(Run& run) {
    Grid& grid = run.resident;
    if (grid.at_barrier.empty() || !grid.ended || grid.at_barrier.size() + grid.ended < run.blocks || is_stopping(run)) return;
    Worker& w = **std::min_element(grid.at_barrier.begin(), grid.at_barrier.end(),
                                   [](auto* a, auto* b) { return a->block_number < b->block_number; });
    for (Fiber& fiber : w.fibers) {
        if (fiber.state != State::AT_GRID) continue;
        w.current = &fiber;
        report(w, BARRIER_NOT_REACHED, reinterpret_cast<uint64_t>(fiber.barrier), false, 0, 1, {0, grid.first_ended, 0});
        w.current = nullptr;
        break;
    }
    stop_all(run);
}

// All blocks wait at a barrier of the grid: what they did before it is ordered before what they do next.
inline void pass_grid(Run& run) {
    Grid& grid = run.resident;
    auto& all = grid.at_barrier;
    std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->block_number < b->block_number; });
    for (Worker* each : all) {
        grid.epochs[each->block_number] = block_epoch(*each) + 1;
        each->passes = true;
    }
    auto& ready = run.launch.order == PREEMPTIVE ? run.turns.workers : grid.queue;
    ready.insert(ready.end(), all.begin(), all.end());
    all.clear();
}

// All threads of a block wait at a barrier of the grid. Returns whether all other blocks came, too; else the launch is to end.
inline bool wait_for_grid(Worker& w) {
    Run& run = *w.run;
    Grid& grid = run.resident;
    std::unique_lock<std::mutex> guard(run.turns.lock);
    w.passes = false;
    grid.at_barrier.push_back(&w);
    if (is_preemptive(w)) leave_turns(w);
    if (grid.at_barrier.size() == run.blocks) pass_grid(run);
    else report_ended(run);
    get_on(w);
    if (!is_preemptive(w)) {
        release_core(w);
        return wait_to_run(w, guard, [&] { return w.passes && w.runs; });
    }
    choose_worker(run);
    if (!wait_to_run(w, guard, [&] { return w.passes && run.turns.current == &w; })) return false;
    take_counters(w);
    return true;
}

// After a block: others that wait for it at a barrier of the grid wait forever.
inline void end_resident(Worker& w) {
    Run& run = *w.run;
    std::lock_guard<std::mutex> guard(run.turns.lock);
    if (!run.resident.ended++) run.resident.first_ended = w.block_number;
    report_ended(run);
    if (!is_preemptive(w)) release_core(w);
}
