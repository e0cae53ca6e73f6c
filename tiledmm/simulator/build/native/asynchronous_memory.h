// What asynchronous operations do to memory, checked as if by a thread that knows what the issuing thread knows; and accesses
// of threads beside them.
//
// Depends on: asynchronous.h, checks.h, clusters.h, ordering.h, readers.h, shared_window.h, state.h
#pragma once

#include "asynchronous.h"
#include "checks.h"
#include "clusters.h"
#include "ordering.h"
#include "readers.h"
#include "shared_window.h"
#include "state.h"

// What one agent stands for.
constexpr uint64_t COPIES_OF_BARRIER = 0, BULK_OF_THREAD = 1ull << 32, WGMMA_OF_WARP = 2ull << 32;
// By the PTX ISA, a warp waits for its own wgmma. NVIDIA's libraries also rely on a warp's wait for those of its warpgroup's
// other warps: who knows only this agent's clock gets a warning.
constexpr uint64_t WGMMA_OF_WARPGROUP = 3ull << 32;

constexpr uint64_t TOKEN = 0xb5;   // in the highest bits of each
constexpr unsigned MOST_ARRIVALS = (1 << 20) - 1;
constexpr long long MOST_BYTES = (1 << 20) - 1;   // that a barrier counts

// Kinds of exchanges between the lanes of a warp (Fiber::kind); tensor_cores.h has those before.
constexpr unsigned WGMMA = WHOLE_WARP + 3, WGMMA_FENCE = WHOLE_WARP + 4, WGMMA_COMMIT = WHOLE_WARP + 5,
                   WGMMA_WAIT = WHOLE_WARP + 6, SET_REGISTERS = WHOLE_WARP + 7, CLUSTER_ARRIVE = WHOLE_WARP + 8,
                   CLUSTER_WAIT = WHOLE_WARP + 9;

constexpr unsigned CHUNK_BYTES = 16;

// Numbers of the faults: FAULTS in check/asynchronous_kinds.py.
enum BarrierFault : unsigned {
    NOT_INITIALISED = 1, BAD_ARRIVALS, TOO_MANY_ARRIVALS, TOO_MANY_BYTES, ACCESSED, INITIALISATION_NOT_ORDERED,
    INITIALISATION_NOT_FENCED, WAITS_ELSEWHERE, IN_USE, NO_TOKEN, PARITY_BEYOND_1, EXPECTS_LATE, STILL_USED,
};
enum CopyFault : unsigned {
    SHARED_ADDRESS = 1, GLOBAL_ADDRESS, SIZE, BARRIER_ELSEWHERE, NO_SUCH_BLOCKS, NOT_COMMITTED, READS_NOT_WAITED, NOT_WAITED,
    NO_MAP, DIMENSIONS, COORDINATE, NEGATIVE, REDUCTION, SWIZZLED_ADDRESS,
};
enum WgmmaFault : unsigned {
    NO_FENCE = 1, LANES_DIFFER, NO_WARPGROUP, WGMMA_NOT_WAITED, WGMMA_NOT_COMMITTED, NOT_BY_ALL_WARPS, OTHER_ORDER, OVERLAPPING,
    SHORT_ADVANCE, WITHIN_A_ROW,
};
enum ClusterFault : unsigned { ARRIVES_TWICE = 1, NOT_ARRIVED, NO_SUCH_RANK };
enum RegisterFault : unsigned { MORE_BY_DEC = 1, FEWER_BY_INC };

bool sees_accesses(const Worker& w) { return w.run->launch.checks || w.run->launch.counts || w.run->launch.guarded; }
bool checks(const Worker& w) { return w.run->launch.checks; }

void use(Worker& w) { w.is_asynchronous = w.synchronizes = true; }

uint64_t as_pc(const void* place) { return reinterpret_cast<uint64_t>(place); }

void report_with(Worker& w, FindingKind kind, uint64_t pc, bool writes, uintptr_t address, unsigned bytes, Other other,
                 std::initializer_list<uint64_t> details) {
    Finding finding = make_finding(w, kind, pc, writes, address, bytes, other);
    std::copy(details.begin(), details.end(), finding.details);
    report(w, finding);
}

// The same of a thread that issued a copy or a wgmma before.
void report_of(Worker& w, unsigned thread, FindingKind kind, uint64_t pc, bool writes, uintptr_t address, unsigned bytes,
               Other other, std::initializer_list<uint64_t> details) {
    Fiber* const current = std::exchange(w.current, &w.fibers[thread]);
    Finding finding = make_finding(w, kind, pc, writes, address, bytes, other);
    std::fill(std::begin(finding.calls), std::end(finding.calls), 0);   // those of what the thread does now
    std::copy(details.begin(), details.end(), finding.details);
    report(w, finding);
    w.current = current;
}

Other other_at(const Worker& owner, unsigned thread, uint64_t pc, bool writes) {
    return {pc, owner.block_number, thread, writes};
}

unsigned epoch_in_block(const Worker& owner, Cell cell) {
    return static_cast<unsigned>(epoch_of(cell) - owner.first_epoch) & 0xffffff;
}
bool is_of_block(const Worker& owner, Cell cell) { return epoch_of(cell) >= owner.first_epoch; }
bool is_agent(const Worker& owner, Cell cell) { return thread_of(cell) >= first_agent(owner); }

// Records what a thread of a block does to shared memory of the owner's block, in a trace of either.
void trace(Worker& owner, Worker& by, unsigned thread, Kind kind, uint64_t pc, uintptr_t offset, unsigned bytes = 0,
           uint64_t other = 0) {
    for (Worker* each : {&owner, &by}) {
        if (!is_traced(*each, ACCESSES)) continue;
        each->trace.push_back(
            {pc, offset, each->barriers - each->barriers_before, other, thread, bytes, kind, SHARED, owner.rank, by.rank});
        return;
    }
}
void trace(Worker& owner, Kind kind, const void* place, uintptr_t offset, unsigned bytes = 0, uint64_t other = 0) {
    trace(owner, *worker, worker->current->thread, kind, as_pc(place), offset, bytes, other);
}

// Whether bytes of shared memory lie in one array.
bool is_inside(const Worker& owner, uintptr_t offset, unsigned bytes) {
    while (bytes > 0) {
        if (offset >= owner.shared_span) return false;
        const unsigned in_slot = offset & ((1u << SLOT_BITS) - 1), room = owner.slots[offset >> SLOT_BITS].bytes;
        if (in_slot >= room) return false;
        const unsigned part = std::min(bytes, room - in_slot);
        bytes -= part;
        offset += part;
        if (bytes && room < 1u << SLOT_BITS) return false;
    }
    return true;
}

// ---- order ----

constexpr unsigned IN_BLOCK_ONLY = 3;   // Finding::unfenced

// Whether an access of the owner's block, or by one of its agents, is ordered before what the current thread does.
bool is_ordered(const Worker& w, const Worker& owner, Cell cell) {
    if (&w == &owner) return epoch_of(cell) != w.epoch || thread_of(cell) == w.current->thread || ::is_ordered(w, cell);
    return includes(w, w.current->others.get(), owner.rank, thread_of(cell), epoch_in_block(owner, cell),
                    full_clock(owner, cell));
}

// Whether an access by a thread of another block is.
bool is_ordered(const Worker& w, const RemoteAccess& access) {
    if (access.rank == w.rank && access.thread == w.current->thread) return true;
    if (access.rank == w.rank && access.thread < first_agent(w) &&
        (access.epoch < block_epoch(w) || knows(w, access.thread, access.clock)))
        return true;
    return includes(w, w.current->others.get(), access.rank, access.thread, access.epoch, access.clock);
}

// Whether a fence stands between a thread's write and what an asynchronous operation of the current thread does: one of the
// writer, or one of the current thread that came after the write.
bool is_fenced(const Worker& w, const Worker& owner, Space space, unsigned thread, unsigned epoch, unsigned clock) {
    const Fence& of_writer = owner.fibers[thread].proxy[space].fence;
    if (of_writer.done && of_writer.clock > clock) return true;
    const ProxyFence& mine = w.current->proxy[space];
    if (!mine.fence.done) return false;
    if (&w == &owner) {
        if (epoch < mine.fence.epoch) return true;
        if (thread / WARP == w.current->thread / WARP && mine.known[thread % WARP] > clock) return true;
    }
    return includes(w, mine.others.get(), owner.rank, thread, epoch, clock);
}

// ---- findings about memory in use ----

constexpr unsigned NO_BARRIER = ~0u;   // a barrier that has been invalidated since

// Who issued the copy that wrote a cell.
struct Writer {
    Worker* issuer = nullptr;
    unsigned thread = 0, phase = 0;
    unsigned barrier = NO_BARRIER;
};
Writer writer_of(const Worker& owner, Cell cell, size_t offset) {
    Cluster& c = *owner.cluster;
    for (const Copy& copy : c.copies)
        for (const Copy::Target& target : copy.targets)
            if (target.rank == owner.rank && offset - copy.offset < copy.data.size())
                return {c.members[copy.rank], copy.thread, target.phase, copy.barrier};
    for (const auto& [at, barrier] : owner.mbarriers) {
        if (barrier.agent != thread_of(cell)) continue;
        for (const AsyncRange& each : barrier.landed)
            if (offset - each.begin < each.end - each.begin) return {c.members[each.rank], each.thread, barrier.phase, at};
        for (const AsyncRange& each : barrier.settled)
            if (offset - each.begin < each.end - each.begin) return {c.members[each.rank], each.thread, barrier.phase - 1, at};
        return {nullptr, 0, barrier.phase ? barrier.phase - 1 : 0, at};
    }
    return {};
}

// details: 0 if nobody has waited for the copy, 1 if only others have (the other thread is not known then); the barrier's
// offset; the phase; if the thread's last wait for the barrier (waited_at) was for an earlier phase, the number of that phase
// plus one, and 1 << 32 if it returned at once.
void report_unfinished(Worker& w, const Worker& owner, Cell written, size_t offset, unsigned bytes, bool writes, uint64_t pc) {
    const Writer writer = writer_of(owner, written, offset);
    Other other = {pc_of(*w.run, site_of(written)), owner.block_number, 0, true};
    if (writer.issuer) other = other_at(*writer.issuer, writer.thread, other.pc, true);
    Finding finding = make_finding(w, UNFINISHED_COPY, pc, writes, owner.shared_base + offset, bytes, other);
    finding.details[0] = !(written & IN_FLIGHT);
    finding.details[1] = writer.barrier;
    finding.details[2] = writer.phase;
    const LastWait& last = w.current->last_wait;
    if (last.place && last.barrier == writer.barrier && last.phase < writer.phase + 1) {
        finding.details[3] = last.phase | static_cast<uint64_t>(last.at_once) << 32;
        finding.waited_at = as_pc(last.place);
    }
    report(w, finding);
}

// What read is a thread, a wgmma or a bulk copy.
static uint64_t reader_of(const Worker& w, unsigned site, bool is_agent) {
    return !is_agent ? 0 : w.run->sites[site].kind == WGMMA_ISSUED ? 1 : 2;
}

// Which finding it is that a read by an agent comes too late.
static FindingKind kind_of_overwriting(const Worker& w, const Worker& owner, unsigned number, unsigned clock) {
    const auto found = owner.usual.find(number);
    if (found == owner.usual.end()) return OVERWRITTEN;
    const bool knows_it = &w == &owner ? knows(w, found->second, clock)
                                       : includes(w, w.current->others.get(), owner.rank, found->second, UINT32_MAX, clock);
    return knows_it ? WARPGROUP_READS : OVERWRITTEN;
}

// details: 1 if the operation is in flight; what read (reader_of).
void report_overwritten(Worker& w, Cell read, size_t offset, unsigned bytes, uint64_t pc) {
    const unsigned site = site_of(read);
    report_with(w, kind_of_overwriting(w, w, thread_of(read), full_clock(w, read)), pc, true, w.shared_base + offset, bytes,
                {pc_of(*w.run, site), w.block_number, w.agent_threads[thread_of(read)], false}, {0, reader_of(w, site, true)});
}

// ---- what asynchronous operations access ----

// Checks what an asynchronous operation of the current thread reads or writes. Kinds in `told` are not reported again.
//   strong   whether it may run beside others that are: reductions
void check_range(Worker& w, Worker& owner, uintptr_t offset, unsigned bytes, bool writes, const void* place, unsigned& told,
                 bool strong = false) {
    const uint64_t pc = as_pc(place);
    const auto once = [&](unsigned what) { return !(std::exchange(told, told | 1u << what) >> what & 1); };
    if ((bytes | offset) & 3 && owner.granule_shift) refine(owner);
    const unsigned size = 1u << owner.granule_shift;
    unsigned unset = 0;
    for (size_t i = offset >> owner.granule_shift; i << owner.granule_shift < offset + bytes; ++i) {
        const size_t at = i << owner.granule_shift;
        const uintptr_t address = owner.shared_base + at;
        const Cell written = owner.writes[i];
        if (!(at & 15)) unset = 0;
        if (!is_of_block(owner, written)) {
            if (!writes && owner.remote.count(i) == 0 && (unset += size) >= 16 && once(0))
                report(w, UNINITIALISED_SHARED, pc, false, address + size - 16, 16);
        } else if (written & IN_FLIGHT && strong && written & STRONG) {
        } else if (is_agent(owner, written)) {
            if ((written & IN_FLIGHT || !is_ordered(w, owner, written)) && once(1))
                report_unfinished(w, owner, written, at, 16, writes, pc);
        } else if (written & IN_FLIGHT) {
            if (once(2))
                report_with(w, ASYNC_NOT_WAITED, pc, writes, address, 16,
                            other_at(owner, thread_of(written), pc_of(*w.run, site_of(written)), true), {});
        } else if (!is_ordered(w, owner, written)) {
            if (once(3))
                report(w, RACE_SHARED, pc, writes, address, 16,
                       other_at(owner, thread_of(written), pc_of(*w.run, site_of(written)), true));
        } else if (!strong && !is_fenced(w, owner, SHARED, thread_of(written), epoch_in_block(owner, written),
                                         full_clock(owner, written))) {
            if (once(4))
                report(w, NO_PROXY_FENCE, pc, writes, address, 16,
                       other_at(owner, thread_of(written), pc_of(*w.run, site_of(written)), true));
        }
        if (!owner.remote.empty()) {
            const auto found = owner.remote.find(i);
            if (found != owner.remote.end())
                for (const RemoteAccess& each : found->second)
                    if ((writes || each.writes) && !(strong && each.is_strong) && !is_ordered(w, each) && once(5))
                        report(w, each.writes ? RACE_SHARED : OVERWRITTEN, pc, writes, address, 16,
                               other_at(*w.cluster->members[each.rank], each.thread, pc_of(*w.run, each.site), each.writes));
        }
        if (!writes) continue;
        const auto look = [&](Cell read) {
            if (!is_of_block(owner, read) || (strong && read & STRONG) || is_ordered(w, owner, read) || !once(6)) return;
            const bool by_agent = is_agent(owner, read);
            const unsigned thread = by_agent ? owner.agent_threads[thread_of(read)] : thread_of(read);
            const FindingKind kind =
                by_agent ? kind_of_overwriting(w, owner, thread_of(read), full_clock(owner, read)) : OVERWRITTEN;
            report_with(w, kind, pc, true, address, 16, other_at(owner, thread, pc_of(*w.run, site_of(read)), false),
                        {0, reader_of(w, site_of(read), by_agent)});
        };
        look(owner.reads[i]);
        look(owner.more_reads[i]);
        if (!owner.readers.empty()) for_readers(owner, i, look);
    }
    if (writes && !strong) check_async_reads(w, owner, offset, bytes, pc, told);
}

unsigned agent_of_barrier(Worker& owner, unsigned offset) { return agent_for(owner, COPIES_OF_BARRIER | offset); }

void mark_written(Worker& owner, uintptr_t offset, unsigned bytes, unsigned number, unsigned clock, unsigned site, Cell flags) {
    if (!checks(owner)) return;
    const Cell cell = make_cell(owner.epoch, cell_clock(owner, number, clock), number, site) | flags;
    for (size_t i = offset >> owner.granule_shift; i << owner.granule_shift < offset + bytes; ++i) owner.writes[i] = cell;
}

// ---- reads of asynchronous operations ----

void mark_chunks(const Worker& owner, std::vector<uint64_t>& chunks, uintptr_t offset, unsigned bytes) {
    chunks.resize(WINDOW / 16 / 64);
    for (unsigned at = 0; at < bytes; at += 16) {
        const unsigned chunk = window_address(owner, offset + at) / 16 % (WINDOW / 16);
        chunks[chunk / 64] |= 1ull << chunk % 64;
    }
}

AsyncReads& reads_of(Worker& w, unsigned agent, unsigned clock, unsigned site) {
    for (AsyncReads& each : w.async_reads)
        if (each.agent == agent && each.clock == clock && each.site == site) return each;
    w.agent_threads[agent] = w.current->thread;
    w.async_reads.push_back({std::vector<uint64_t>(WINDOW / 16 / 64), agent, clock, w.current->thread, site});
    return w.async_reads.back();
}

// An operation has read these chunks, and a thread has waited for it: who overwrites them must know that.
void settle_reads(Worker& w, unsigned agent, unsigned before) {
    size_t left = 0;
    for (AsyncReads& each : w.async_reads) {
        if (each.agent != agent || each.clock >= before) {
            if (&w.async_reads[left] != &each) w.async_reads[left] = std::move(each);
            ++left;
            continue;
        }
        if (!checks(w)) continue;
        const Cell cell = make_cell(w.epoch, cell_clock(w, agent, each.clock), agent, each.site);
        for (unsigned word = 0; word < each.chunks.size(); ++word)
            for (uint64_t bits = each.chunks[word]; bits; bits &= bits - 1) {
                const unsigned at = (word * 64 + static_cast<unsigned>(__builtin_ctzll(bits))) * 16;
                const size_t first = offset_of(w, at) >> w.granule_shift;
                for (size_t i = first; i < first + (16u >> w.granule_shift) && i < w.reads.size(); ++i) keep_reader(w, i, cell);
            }
    }
    w.async_reads.resize(left);
}

// Whether a write meets what an operation in flight reads.
void check_async_reads(Worker& w, const Worker& owner, uintptr_t offset, unsigned bytes, uint64_t pc, unsigned& told) {
    for (const AsyncReads& each : owner.async_reads)
        for (uintptr_t at = offset & ~15ull; at < offset + bytes; at += 16) {
            const unsigned chunk = window_address(owner, at) / 16 % (WINDOW / 16);
            if (!(each.chunks[chunk / 64] >> chunk % 64 & 1)) continue;
            if (told >> 7 & 1) return;
            told |= 1u << 7;
            report_with(w, kind_of_overwriting(w, owner, each.agent, each.clock), pc, true,
                        owner.shared_base + std::max<uintptr_t>(at, offset), std::min(bytes, 16u),
                        other_at(owner, each.thread, pc_of(*w.run, each.site), false), {1, reader_of(w, each.site, true)});
            return;
        }
}

void check_beside_asynchronous(Worker& w, size_t offset, unsigned bytes, unsigned how, unsigned site) {
    const uint64_t pc = pc_of(*w.run, site);
    unsigned told = 0;
    if (how & WRITES && !(how & IS_COPY)) check_async_reads(w, w, offset, bytes, pc, told);
    if (!w.mbarriers.empty()) {
        auto at = w.mbarriers.lower_bound(static_cast<unsigned>(offset + bytes));
        if (at != w.mbarriers.begin() && (--at)->first + 8 > offset)
            report(w, BAD_BARRIER, pc, how & WRITES, w.shared_base + offset, ACCESSED,
                   {at->second.made_at, w.block_number, at->second.thread, true});
    }
    if (w.remote.empty()) return;
    for (size_t i = offset >> w.granule_shift; i << w.granule_shift < offset + bytes; ++i) {
        const auto found = w.remote.find(i);
        if (found == w.remote.end()) continue;
        for (const RemoteAccess& each : found->second) {
            if (!(how & WRITES || each.writes) || (each.is_strong && how & (IS_ATOMIC | IS_VOLATILE))) continue;
            Other other = other_at(*w.cluster->members[each.rank], each.thread, pc_of(*w.run, each.site), each.writes);
            if (is_ordered(w, each)) {
                if (how & WRITES || is_visible(w, each.rank, each.thread, each.epoch, each.clock)) continue;
                other.unfenced = IN_BLOCK_ONLY;
            }
            report(w, RACE_SHARED, pc, how & WRITES, w.shared_base + offset, bytes, other);
            break;
        }
    }
}
