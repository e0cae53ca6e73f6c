// Checks of an access before it happens, and the findings: place in the code, block and threads.
// Depends on: fibers.h, state.h
#pragma once

#include <dlfcn.h>

#include "fibers.h"
#include "state.h"

// ---- sites ----

unsigned find_site(Run& run, const void* place, unsigned bytes, unsigned kind) {
    const auto pc = reinterpret_cast<uint64_t>(place);
    unsigned at = (pc * 0x9e3779b97f4a7c15ull) >> (64 - 14);
    for (unsigned tries = 0; tries < SITES; ++tries, at = (at + 1) % SITES) {
        Site& site = run.sites[at];
        uint64_t occupant = site.pc.load(std::memory_order_acquire);
        if (occupant == 0 && site.pc.compare_exchange_strong(occupant, pc)) {
            site.bytes = bytes;
            site.kind = kind;
            site.group = 0;
            site.width[0] = site.width[1] = bytes;
            if (run.launch.describe) {
                uint64_t answer[3] = {};
                run.launch.describe(pc, kind, answer);
                site.group = static_cast<uint32_t>(answer[0]);
                for (int space = 0; space < 2; ++space)
                    if (answer[1 + space]) site.width[space] = static_cast<uint32_t>(answer[1 + space]);
            }
            site.ready.store(1, std::memory_order_release);
            return at;
        }
        if (occupant == pc) {
            while (!site.ready.load(std::memory_order_acquire)) {
            }
            return at;
        }
    }
    std::abort();   // no kernel has so many sites
}

// ---- findings ----

Index index_of(const Run& run, uint64_t number) {
    const uint64_t xy = static_cast<uint64_t>(run.grid.x) * run.grid.y;
    return {static_cast<unsigned>(number % run.grid.x), static_cast<unsigned>(number / run.grid.x % run.grid.y),
            static_cast<unsigned>(number / xy)};
}

Index thread_index(const Run& run, unsigned thread) {
    return {thread % run.block.x, thread / run.block.x % run.block.y, thread / (run.block.x * run.block.y)};
}

void set(uint32_t (&to)[3], Index from) {
    to[0] = from.x;
    to[1] = from.y;
    to[2] = from.z;
}

struct Other {   // the other party of a race, or of a barrier
    uint64_t pc = 0;
    uint64_t block = 0;
    unsigned thread = 0;
    bool writes = false;
};

void report(Worker& w, FindingKind kind, uint64_t pc, bool writes, uintptr_t address, unsigned bytes, Other other = {}) {
    Run& run = *w.run;
    std::lock_guard<std::mutex> guard(run.lock);
    const uint64_t key = (pc * 0x9e3779b97f4a7c15ull ^ other.pc) * 0x9e3779b97f4a7c15ull + kind;
    const auto known = run.finding_index.find(key);
    if (known != run.finding_index.end()) {
        ++run.findings[known->second].count;
        return;
    }
    if (run.findings.size() >= MAX_FINDINGS) return;
    run.finding_index.emplace(key, run.findings.size());
    Finding finding = {};
    finding.kind = kind;
    finding.count = 1;
    finding.pc = pc;
    finding.other_pc = other.pc;
    finding.writes = writes;
    finding.other_writes = other.writes;
    finding.bytes = bytes;
    finding.address = address;
    if (address - w.shared_base < w.shared_span) {
        finding.space = SHARED;
        finding.address -= w.shared_base;
    } else {
        finding.space = GLOBAL;
    }
    set(finding.block, w.block);
    set(finding.thread, w.current ? w.current->index : Index{});
    set(finding.other_block, index_of(run, other.block));
    set(finding.other_thread, thread_index(run, other.thread));
    run.findings.push_back(finding);
}

uint64_t pc_of(const Run& run, unsigned site) { return run.sites[site].pc; }

// ---- checks ----

// One cell for each byte instead of one for 4 bytes.
void refine(Worker& w) {
    for (auto* cells : {&w.reads, &w.more_reads, &w.writes}) {
        std::vector<Cell> fine(cells->size() * 4);
        for (size_t i = 0; i < fine.size(); ++i) fine[i] = (*cells)[i / 4];
        cells->swap(fine);
    }
    w.granule_shift = 0;
}

// Whether an earlier access by another thread has no barrier between it and now.
ALWAYS_INLINE bool conflicts(const Worker& w, Cell earlier, unsigned thread, unsigned warp_epoch) {
    return epoch_of(earlier) == w.epoch && thread_of(earlier) != thread &&
           (thread_of(earlier) / WARP != thread / WARP || warp_epoch_of(earlier) == warp_epoch);
}

// Two readers are kept, so that a later writer conflicts with one of them if it conflicts with any reader: two of
// different warps, if there are any; of one warp, the two that read last.
ALWAYS_INLINE void keep_reader(Worker& w, size_t at, Cell mine) {
    Cell &one = w.reads[at], &two = w.more_reads[at];
    if (epoch_of(one) != w.epoch) {
        one = mine;
        two = 0;
    } else if (thread_of(one) == thread_of(mine)) {
        one = mine;
    } else if (epoch_of(two) != w.epoch || thread_of(two) == thread_of(mine)) {
        two = mine;
    } else if (thread_of(one) / WARP == thread_of(two) / WARP) {
        (warp_epoch_of(one) < warp_epoch_of(two) ? one : two) = mine;
    }
}

// Checks an access to shared memory that is inside an array. `in_flight`: the store of an asynchronous copy.
ALWAYS_INLINE void check_shared(Worker& w, size_t offset, unsigned bytes, bool writes, unsigned site, bool in_flight) {
    Run& run = *w.run;
    if ((bytes | offset) & 3 && w.granule_shift) refine(w);
    const unsigned thread = w.current->thread;
    const unsigned warp_epoch = w.current->warp_epoch & 0xfff;
    const Cell mine = make_cell(w.epoch, warp_epoch, thread, site);
    const size_t first = offset >> w.granule_shift, count = bytes >> w.granule_shift;
    for (size_t i = first; i < first + count; ++i) {
        const Cell written = w.writes[i];
        if (written & IN_FLIGHT && epoch_of(written) >= w.first_epoch) {
            const Other other = {pc_of(run, site_of(written)), w.block_number, thread_of(written), true};
            report(w, ASYNC_NOT_WAITED, pc_of(run, site), writes, w.shared_base + offset, bytes, other);
            if (writes) w.writes[i] = mine;
            continue;
        }
        if (conflicts(w, written, thread, warp_epoch)) {
            const Other other = {pc_of(run, site_of(written)), w.block_number, thread_of(written), true};
            report(w, RACE_SHARED, pc_of(run, site), writes, w.shared_base + offset, bytes, other);
        } else if (!writes && epoch_of(written) < w.first_epoch) {
            report(w, UNINITIALISED_SHARED, pc_of(run, site), false, w.shared_base + offset, bytes);
        }
        if (writes) {
            for (const Cell read : {w.reads[i], w.more_reads[i]}) {
                if (!conflicts(w, read, thread, warp_epoch)) continue;
                const Other other = {pc_of(run, site_of(read)), w.block_number, thread_of(read), false};
                report(w, RACE_SHARED, pc_of(run, site), true, w.shared_base + offset, bytes, other);
                break;
            }
            w.writes[i] = in_flight ? mine | IN_FLIGHT : mine;
        } else {
            keep_reader(w, i, mine);
        }
    }
}

enum class Reach { INSIDE, READ_ONLY, OUTSIDE };

Reach reach(const Run& run, uintptr_t address, unsigned bytes, bool writes, const Operand** operand) {
    Reach best = Reach::OUTSIDE;
    for (unsigned i = 0; i < run.launch.operand_count; ++i) {
        const Operand& o = run.launch.operands[i];
        const uintptr_t offset = address - o.begin;
        if (offset >= o.bytes || offset + bytes > o.bytes) continue;
        if (o.valid) {
            bool inside = true;
            for (uintptr_t at = offset / o.granule; at <= (offset + bytes - 1) / o.granule; ++at)
                inside = inside && o.valid[at];
            if (!inside) continue;
        }
        *operand = &o;
        if (!writes || o.cells) return Reach::INSIDE;
        best = Reach::READ_ONLY;
    }
    return best;
}

ALWAYS_INLINE void check_result(Worker& w, const Operand& o, uintptr_t address, unsigned bytes, bool writes, unsigned site) {
    Run& run = *w.run;
    const Cell mine = make_result_cell(w.block_number, w.current->thread, site, w.epoch);
    auto* cells = reinterpret_cast<std::atomic<Cell>*>(o.cells);
    for (uintptr_t at = (address - o.begin) / o.granule; at <= (address - o.begin + bytes - 1) / o.granule; ++at) {
        if (cells[at].load(std::memory_order_relaxed) == ANYBODYS) continue;
        const Cell old = writes ? cells[at].exchange(mine, std::memory_order_relaxed) : cells[at].load(std::memory_order_relaxed);
        if (old == 0) {
            if (!writes && !o.defined) report(w, UNINITIALISED_RESULT, pc_of(run, site), false, address, bytes);
            continue;
        }
        const Other other = {pc_of(run, old >> 10 & 0x3fff), (old >> 34) - 1, static_cast<unsigned>(old >> 24 & 0x3ff), true};
        const bool same_block = other.block == w.block_number;
        if (!same_block || (other.thread != w.current->thread && ((old ^ mine) & 0x3ff) == 0))
            report(w, RACE_GLOBAL, pc_of(run, site), writes, address, bytes, other);
    }
}

// Whether an address is in the data of the kernel's library: its constants.
bool is_constant(const Worker& w, uintptr_t address) {
    Dl_info data, code;
    return dladdr(reinterpret_cast<void*>(address), &data) &&
           dladdr(reinterpret_cast<void*>(w.run->launch.run_thread), &code) && data.dli_fbase == code.dli_fbase;
}

ALWAYS_INLINE bool in_stacks(const Worker& w, uintptr_t address) {
    return address - reinterpret_cast<uintptr_t>(w.stacks) < MAX_THREADS * STACK_BYTES;
}
