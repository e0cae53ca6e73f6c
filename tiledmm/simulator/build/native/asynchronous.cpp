// Hopper's asynchronous instructions: mbarriers, bulk copies, TMA, clusters and wgmma (asynchronous.h).
//
// An asynchronous operation reads memory when it is issued, and writes it when it arrives: at the latest when all threads of
// the cluster wait, sooner in other orders of threads. What it accesses is checked when it is issued, as if by a thread that knows
// what the issuing thread knows; it is ordered before what threads do that have waited for it, and know its agent's clock.
//
// Depends on: asynchronous.h, checks.h, clusters.h, descriptors.h, ordering.h, readers.h, schedule.h, shared_window.h, state.h,
// tensor_maps.h, wgmma_sums.h
#include "state.h"

struct uint3 {
    unsigned x, y, z;
};
#pragma GCC visibility push(default)
#include "asynchronous.h"
#pragma GCC visibility pop

#include "checks.h"
#include "clusters.h"
#include "descriptors.h"
#include "ordering.h"
#include "readers.h"
#include "schedule.h"
#include "shared_window.h"
#include "tensor_maps.h"
#include "wgmma_sums.h"

using namespace tiledmm_detail;

namespace {

// What one agent stands for.
constexpr uint64_t COPIES_OF_BARRIER = 0, BULK_OF_THREAD = 1ull << 32, WGMMA_OF_WARPGROUP = 2ull << 32;

constexpr unsigned MOST_ARRIVALS = (1 << 20) - 1;
constexpr long long MOST_BYTES = (1 << 20) - 1;   // that a barrier counts

// Kinds of exchanges between the lanes of a warp (Fiber::kind); tensor_cores.h has those before.
constexpr unsigned WGMMA = WHOLE_WARP + 3, WGMMA_FENCE = WHOLE_WARP + 4, WGMMA_COMMIT = WHOLE_WARP + 5, WGMMA_WAIT = WHOLE_WARP + 6,
                   SET_REGISTERS = WHOLE_WARP + 7;

// Numbers of the faults in check/finding_kinds.py.
enum BarrierFault : unsigned {
    NOT_INITIALISED = 1, BAD_ARRIVALS, TOO_MANY_ARRIVALS, TOO_MANY_BYTES, ACCESSED, INITIALISATION_NOT_ORDERED, INITIALISATION_NOT_FENCED,
    WAITS_ELSEWHERE, IN_USE, NO_SUCH_BLOCK,
};
enum CopyFault : unsigned {
    SHARED_ADDRESS = 1, GLOBAL_ADDRESS, SIZE, BARRIER_ELSEWHERE, NO_SUCH_BLOCKS, NOT_COMMITTED, READS_NOT_WAITED, NOT_WAITED, NO_MAP, DIMENSIONS,
    COORDINATE, NEGATIVE, REDUCTION, SWIZZLED_ADDRESS,
};
enum WgmmaFault : unsigned { NO_FENCE = 1, LANES_DIFFER, NO_WARPGROUP, WGMMA_NOT_WAITED, WGMMA_NOT_COMMITTED, DESCRIPTOR_NOWHERE };
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
void report_of(Worker& w, unsigned thread, FindingKind kind, uint64_t pc, bool writes, uintptr_t address, unsigned bytes, Other other,
               std::initializer_list<uint64_t> details) {
    Fiber* const current = std::exchange(w.current, &w.fibers[thread]);
    report_with(w, kind, pc, writes, address, bytes, other, details);
    w.current = current;
}

Other other_at(const Worker& owner, unsigned thread, uint64_t pc, bool writes) { return {pc, owner.block_number, thread, writes}; }

unsigned epoch_in_block(const Worker& owner, Cell cell) { return static_cast<unsigned>(epoch_of(cell) - owner.first_epoch) & 0xffffff; }
bool is_of_block(const Worker& owner, Cell cell) { return epoch_of(cell) >= owner.first_epoch; }
bool is_agent(const Worker& owner, Cell cell) { return thread_of(cell) >= first_agent(owner); }

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

// Whether an access of the owner's block, or by one of its agents, is ordered before what the current thread does.
bool is_ordered(const Worker& w, const Worker& owner, Cell cell) {
    if (&w == &owner) return epoch_of(cell) != w.epoch || thread_of(cell) == w.current->thread || ::is_ordered(w, cell);
    return includes(w, w.current->others.get(), owner.rank, thread_of(cell), epoch_in_block(owner, cell), full_clock(owner, cell));
}

// Whether an access by a thread of another block is.
bool is_ordered(const Worker& w, const RemoteAccess& access) {
    if (access.rank == w.rank && access.thread == w.current->thread) return true;
    if (access.rank == w.rank && access.thread < first_agent(w) && (access.epoch < block_epoch(w) || knows(w, access.thread, access.clock))) return true;
    return includes(w, w.current->others.get(), access.rank, access.thread, access.epoch, access.clock);
}

// Whether a fence stands between a thread's write and what an asynchronous operation of the current thread does: one of the writer,
// or one of the current thread that came after the write.
bool is_fenced(const Worker& w, const Worker& owner, unsigned thread, unsigned epoch, unsigned clock) {
    const Fence& of_writer = owner.fibers[thread].proxy.fence;
    if (of_writer.done && of_writer.clock > clock) return true;
    const ProxyFence& mine = w.current->proxy;
    if (!mine.fence.done) return false;
    if (&w == &owner) {
        if (epoch < mine.fence.epoch) return true;
        if (thread / WARP == w.current->thread / WARP && mine.known[thread % WARP] > clock) return true;
    }
    return includes(w, mine.others.get(), owner.rank, thread, epoch, clock);
}

// ---- findings about memory in use ----

// Who issued the copy that wrote a cell.
struct Writer {
    Worker* issuer = nullptr;
    unsigned thread = 0, phase = 0;
    unsigned barrier = 0;
    bool is_done = false;   // its phase has completed
};
Writer writer_of(const Worker& owner, Cell cell, size_t offset) {
    Cluster& c = *owner.cluster;
    for (const Copy& copy : c.copies)
        for (const Copy::Target& target : copy.targets)
            if (target.rank == owner.rank && offset - copy.offset < copy.data.size())
                return {c.members[copy.rank], copy.thread, target.phase, copy.barrier, false};
    for (const auto& [at, barrier] : owner.mbarriers) {
        if (barrier.agent != thread_of(cell)) continue;
        for (const AsyncRange& each : barrier.landed)
            if (offset - each.begin < each.end - each.begin) return {c.members[each.rank], each.thread, barrier.phase, at, false};
        for (const AsyncRange& each : barrier.settled)
            if (offset - each.begin < each.end - each.begin) return {c.members[each.rank], each.thread, barrier.phase - 1, at, true};
        return {nullptr, 0, barrier.phase ? barrier.phase - 1 : 0, at, true};
    }
    return {};
}

}   // namespace

// details: 0 if nobody has waited for the copy, 1 if only others have; the barrier; the phase; 1 if the thread's last wait for the
// barrier returned at once, for the phase before (waited_at is where).
void report_unfinished(Worker& w, const Worker& owner, Cell written, size_t offset, unsigned bytes, bool writes, uint64_t pc) {
    const Writer writer = writer_of(owner, written, offset);
    Other other = {pc_of(*w.run, site_of(written)), owner.block_number, 0, true};
    if (writer.issuer) other = other_at(*writer.issuer, writer.thread, other.pc, true);
    Finding finding = make_finding(w, UNFINISHED_COPY, pc, writes, owner.shared_base + offset, bytes, other);
    finding.details[0] = !(written & IN_FLIGHT);
    finding.details[1] = window_address(owner, writer.barrier);
    finding.details[2] = writer.phase;
    const LastWait& last = w.current->last_wait;
    if (last.place && last.barrier == writer.barrier && last.phase < writer.phase + 1) {
        finding.details[3] = 1;
        finding.waited_at = as_pc(last.place);
    }
    report(w, finding);
}

// details: 1 if the operation is in flight.
void report_overwritten(Worker& w, Cell read, size_t offset, unsigned bytes, uint64_t pc) {
    report_with(w, OVERWRITTEN, pc, true, w.shared_base + offset, bytes, {pc_of(*w.run, site_of(read)), w.block_number, 0, false}, {0});
}

namespace {

// ---- what asynchronous operations access ----

// Checks what an asynchronous operation of the current thread reads or writes. Kinds in `told` are not reported again.
//   strong   whether it may run beside others that are: reductions
void check_range(Worker& w, Worker& owner, uintptr_t offset, unsigned bytes, bool writes, const void* place, unsigned& told, bool strong = false) {
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
            if (!writes && owner.remote.count(i) == 0 && (unset += size) >= 16 && once(0)) report(w, UNINITIALISED_SHARED, pc, false, address + size - 16, 16);
        } else if (written & IN_FLIGHT && strong && written & STRONG) {
        } else if (is_agent(owner, written)) {
            if ((written & IN_FLIGHT || !is_ordered(w, owner, written)) && once(1)) report_unfinished(w, owner, written, at, 16, writes, pc);
        } else if (written & IN_FLIGHT) {
            if (once(2)) report_with(w, ASYNC_NOT_WAITED, pc, writes, address, 16, other_at(owner, thread_of(written), pc_of(*w.run, site_of(written)), true), {});
        } else if (!is_ordered(w, owner, written)) {
            if (once(3)) report(w, RACE_SHARED, pc, writes, address, 16, other_at(owner, thread_of(written), pc_of(*w.run, site_of(written)), true));
        } else if (!strong && !is_fenced(w, owner, thread_of(written), epoch_in_block(owner, written), full_clock(owner, written))) {
            if (once(4)) report(w, NO_PROXY_FENCE, pc, writes, address, 16, other_at(owner, thread_of(written), pc_of(*w.run, site_of(written)), true));
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
            const unsigned thread = is_agent(owner, read) ? 0 : thread_of(read);
            report(w, OVERWRITTEN, pc, true, address, 16, other_at(owner, thread, pc_of(*w.run, site_of(read)), false));
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

}   // namespace

// Whether a write meets what an operation in flight reads.
void check_async_reads(Worker& w, const Worker& owner, uintptr_t offset, unsigned bytes, uint64_t pc, unsigned& told) {
    for (const AsyncReads& each : owner.async_reads)
        for (uintptr_t at = offset & ~15ull; at < offset + bytes; at += 16) {
            const unsigned chunk = window_address(owner, at) / 16 % (WINDOW / 16);
            if (!(each.chunks[chunk / 64] >> chunk % 64 & 1)) continue;
            if (told >> 7 & 1) return;
            told |= 1u << 7;
            report_with(w, OVERWRITTEN, pc, true, owner.shared_base + std::max<uintptr_t>(at, offset), std::min(bytes, 16u),
                        other_at(owner, each.thread, pc_of(*w.run, each.site), false), {1});
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
            report(w, BAD_BARRIER, pc, how & WRITES, w.shared_base + offset, ACCESSED, {at->second.made_at, w.block_number, at->second.thread, true});
    }
    if (w.remote.empty()) return;
    for (size_t i = offset >> w.granule_shift; i << w.granule_shift < offset + bytes; ++i) {
        const auto found = w.remote.find(i);
        if (found == w.remote.end()) continue;
        for (const RemoteAccess& each : found->second) {
            if (!(how & WRITES || each.writes) || (each.is_strong && how & (IS_ATOMIC | IS_VOLATILE)) || is_ordered(w, each)) continue;
            report(w, RACE_SHARED, pc, how & WRITES, w.shared_base + offset, bytes,
                   other_at(*w.cluster->members[each.rank], each.thread, pc_of(*w.run, each.site), each.writes));
            break;
        }
    }
}

namespace {

// ---- other blocks of the cluster ----

// The current thread accesses another block's shared memory: the block must not end before.
void touch(Worker& w, Worker& owner, const void* place, uintptr_t offset, unsigned bytes, bool writes, unsigned site, unsigned agent = 0,
           unsigned clock = 0) {
    if (&w == &owner) return;
    if (owner.is_done) {
        report_with(w, ENDED_BLOCK, as_pc(place), writes, owner.shared_base + offset, bytes, {0, owner.block_number, 0}, {0});
        abort_launch(w);
    }
    owner.is_asynchronous = true;
    const Fiber& fiber = *w.current;
    const unsigned member = agent ? agent : fiber.thread;
    owner.last_remote[{w.rank, member}] = {w.rank, fiber.thread, block_epoch(w), agent ? clock : fiber.clock, site, writes, false, member};
}

Worker* owner_at(Worker& w, unsigned at, const void* place) {
    Worker* const owner = owner_of(w, at);
    if (!owner) report_and_abort(w, BAD_CLUSTER_BARRIER, place, false, at, NO_SUCH_RANK);
    return owner;
}

void* remote_pointer(Worker& owner, unsigned at) { return reinterpret_cast<void*>(owner.shared_base + offset_of(owner, at)); }

}   // namespace

bool on_remote_access(Worker& w, uintptr_t address, unsigned bytes, unsigned how, unsigned kind, const void* place, unsigned alignment) {
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
    if ((bytes | offset) & 3 && owner->granule_shift) refine(*owner);
    const RemoteAccess mine = {w.rank, w.current->thread, block_epoch(w), w.current->clock, site, writes, strong, w.current->thread};
    bool told = false;
    const auto race = [&](const Worker& of, unsigned thread, unsigned other_site, bool other_writes) {
        if (std::exchange(told, true)) return;
        report(w, RACE_SHARED, as_pc(place), writes, w.shared_base + offset, bytes, other_at(of, thread, pc_of(run, other_site), other_writes));
    };
    size_t unset = 0, count = 0;
    for (size_t i = offset >> owner->granule_shift; i << owner->granule_shift < offset + bytes; ++i, ++count) {
        const Cell written = owner->writes[i];
        auto& all = owner->remote[i];
        if (is_of_block(*owner, written) && is_agent(*owner, written)) {
            if ((written & IN_FLIGHT || !is_ordered(w, *owner, written)) && !std::exchange(told, true))
                report_unfinished(w, *owner, written, offset, bytes, writes, as_pc(place));
        } else if (is_of_block(*owner, written)) {
            if (!(strong && written & STRONG) && !is_ordered(w, *owner, written)) race(*owner, thread_of(written), site_of(written), true);
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
        all.erase(std::remove_if(all.begin(), all.end(), [&](const RemoteAccess& each) {
            return each.rank == mine.rank && each.thread == mine.thread && each.writes == writes;
        }), all.end());
        all.push_back(mine);
    }
    if (unset == count) report(w, UNINITIALISED_SHARED, as_pc(place), false, w.shared_base + offset, bytes);
    unsigned asked = 0;
    if (writes) check_async_reads(w, *owner, offset, bytes, as_pc(place), asked);
    return true;
}

namespace {

// ---- mbarriers ----

struct Found {
    Worker* owner;
    unsigned offset;
    Barrier* barrier;
};

Found find_barrier(Worker& w, unsigned at, const void* place) {
    Worker* const owner = owner_at(w, at, place);
    const uintptr_t offset = offset_of(*owner, at);
    if (!is_inside(*owner, offset, 8)) report_and_abort(w, OUTSIDE_SHARED, place, true, w.shared_base + offset, 8);
    if (offset & 7) report_and_abort(w, MISALIGNED, place, true, w.shared_base + offset, 8);
    touch(w, *owner, place, offset, 8, true, find_site(*w.run, place, 8, STORE));
    const auto found = owner->mbarriers.find(static_cast<unsigned>(offset));
    if (found == owner->mbarriers.end()) report_and_abort(w, BAD_BARRIER, place, true, w.shared_base + offset, NOT_INITIALISED);
    Barrier& barrier = found->second;
    const bool is_relayed = barrier.fenced && w.cluster->phase > barrier.fenced_at;   // by a barrier of the cluster without memory order
    const bool same = owner == &w && barrier.thread == w.current->thread;
    const bool ordered = same || is_relayed || (owner == &w && (barrier.epoch < block_epoch(w) || knows(w, barrier.thread, barrier.clock))) ||
                         includes(w, w.current->others.get(), owner->rank, barrier.thread, barrier.epoch, barrier.clock);
    if (checks(w) && !ordered)
        report(w, BAD_BARRIER, as_pc(place), true, w.shared_base + offset, INITIALISATION_NOT_ORDERED,
               {barrier.made_at, owner->block_number, barrier.thread, true});
    return {owner, static_cast<unsigned>(offset), &barrier};
}

void complete_phase(Worker& owner, unsigned offset, Barrier& barrier) {
    for (Copy& copy : owner.cluster->copies)
        for (Copy::Target& target : copy.targets) {
            if (!copy.completes || copy.barrier != offset || target.rank != owner.rank || target.phase != barrier.phase) continue;
            ++target.phase;   // it will count there
            Worker& issuer = *owner.cluster->members[copy.rank];
            report_of(issuer, copy.thread, UNEXPECTED_BYTES, copy.place, true, issuer.shared_base + offset, static_cast<unsigned>(copy.data.size()),
                      {barrier.expected_at, owner.block_number, barrier.thread, true}, {1, barrier.phase});
        }
    reserve(owner, barrier.known);
    for (AsyncRange& each : barrier.landed) {
        unsigned& clock = barrier.known.clocks[owner.rank * owner.members + barrier.agent];
        clock = std::max(clock, each.clock + 1);
        barrier.settled.push_back(each);
    }
    barrier.landed.clear();
    ++barrier.phase;
    barrier.pending = barrier.arrivals;
    barrier.done = std::make_shared<const Knowledge>(barrier.known);
    wake(owner);
}

void complete_if_all(Worker& owner, unsigned offset, Barrier& barrier) {
    if (barrier.pending == 0 && barrier.bytes == 0) complete_phase(owner, offset, barrier);
}

// A thread has waited for the phase: from now on, only threads that do not know of it must not access what its copies wrote.
void settle(Worker& owner, Barrier& barrier) {
    for (const AsyncRange& each : barrier.settled) {
        if (!checks(owner)) break;
        const Cell cell = make_cell(owner.epoch, cell_clock(owner, barrier.agent, each.clock), barrier.agent, each.site);
        for (size_t i = each.begin >> owner.granule_shift; i << owner.granule_shift < each.end; ++i)
            if (thread_of(owner.writes[i]) == barrier.agent && owner.writes[i] & IN_FLIGHT) owner.writes[i] = cell;
    }
    barrier.settled.clear();
}

// Arrivals and expected bytes by the current thread.
uint64_t arrive(Worker& w, const Found& found, unsigned arrivals, unsigned bytes, unsigned flags, const void* place) {
    Barrier& barrier = *found.barrier;
    Fiber& fiber = *w.current;
    const uintptr_t address = w.shared_base + found.offset;
    if (arrivals > MOST_ARRIVALS || arrivals == 0) report_and_abort(w, BAD_BARRIER, place, true, address, BAD_ARRIVALS);
    if (!(flags & RELAXED)) add_known(w, fiber, barrier.known);
    ++fiber.clock;
    const uint64_t token = static_cast<uint64_t>(barrier.phase) << 32 | barrier.pending;
    if (flags & EXPECTS) {
        barrier.bytes += bytes;
        barrier.expected_at = as_pc(place);
        if (barrier.bytes > MOST_BYTES) report(w, BAD_BARRIER, as_pc(place), true, address, TOO_MANY_BYTES);
    }
    if (arrivals > barrier.pending)
        report(w, BAD_BARRIER, as_pc(place), true, address, TOO_MANY_ARRIVALS, {barrier.made_at, found.owner->block_number, barrier.thread, true});
    barrier.arrived_at = as_pc(place);
    barrier.pending -= std::min(barrier.pending, arrivals);
    if (flags & DROPS) barrier.arrivals -= std::min(barrier.arrivals, arrivals);
    complete_if_all(*found.owner, found.offset, barrier);
    return token;
}

// ---- copies in flight ----

// A value of a reduction: what was there, and what comes.
template <class T>
T reduced(T old, T value, unsigned how) {
    switch (how) {
        case ADD: return static_cast<T>(old + value);
        case MIN: return value < old ? value : old;
        case MAX: return old < value ? value : old;
    }
    if constexpr (std::is_integral<T>::value) {
        switch (how) {
            case INC: return old >= value ? 0 : static_cast<T>(old + 1);
            case DEC: return old == 0 || old > value ? value : static_cast<T>(old - 1);
            case AND: return old & value;
            case OR: return old | value;
            case XOR: return old ^ value;
        }
    }
    return value;
}
template <class T>
void reduce(uint8_t* to, const uint8_t* from, unsigned bytes, unsigned how) {
    for (unsigned at = 0; at < bytes; at += sizeof(T)) {
        T old, value;
        std::memcpy(&old, to + at, sizeof(T));
        std::memcpy(&value, from + at, sizeof(T));
        old = reduced(old, value, how);
        std::memcpy(to + at, &old, sizeof(T));
    }
}
float narrow_value(uint16_t bits, bool bfloat) {
    if (!bfloat) return half_value(bits);
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
}
uint16_t narrowed(float value, bool bfloat) {
    if (!bfloat) return static_cast<uint16_t>(half_bits(value));
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (value != value) return 0x7fff;
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
void reduce_narrow(uint8_t* to, const uint8_t* from, unsigned bytes, unsigned how, bool bfloat) {
    for (unsigned at = 0; at < bytes; at += 2) {
        uint16_t old, value;
        std::memcpy(&old, to + at, 2);
        std::memcpy(&value, from + at, 2);
        old = narrowed(reduced(narrow_value(old, bfloat), narrow_value(value, bfloat), how), bfloat);
        std::memcpy(to + at, &old, 2);
    }
}
void write_bytes(uint8_t* to, const uint8_t* from, unsigned bytes, unsigned reduction, unsigned type) {
    if (!reduction) return static_cast<void>(std::memcpy(to, from, bytes));
    static std::mutex lock;   // blocks of several clusters may reduce to one place
    std::lock_guard<std::mutex> guard(lock);
    switch (type) {
        case S32: return reduce<int32_t>(to, from, bytes, reduction);
        case U64: case B64: return reduce<uint64_t>(to, from, bytes, reduction);
        case S64: return reduce<int64_t>(to, from, bytes, reduction);
        case F32: case TF32: return reduce<float>(to, from, bytes, reduction);
        case F64: return reduce<double>(to, from, bytes, reduction);
        case F16: return reduce_narrow(to, from, bytes, reduction, false);
        case BF16: return reduce_narrow(to, from, bytes, reduction, true);
        default: return reduce<uint32_t>(to, from, bytes, reduction);
    }
}

// The current thread issues a copy, whose destination in shared memory has been checked.
void issue(Worker& w, Copy&& copy) {
    Cluster& c = *w.cluster;
    for (Copy::Target& target : copy.targets) {
        Worker& owner = *c.members[target.rank];
        const auto found = owner.mbarriers.find(copy.barrier);
        if (found == owner.mbarriers.end()) continue;
        target.phase = found->second.phase;
        if (!copy.data.empty()) {
            target.clock = agent(owner, found->second.agent).clock++;
            if (copy.pieces.empty())
                mark_written(owner, copy.offset, static_cast<unsigned>(copy.data.size()), found->second.agent, target.clock, copy.site,
                             copy.reduction ? IN_FLIGHT | STRONG : IN_FLIGHT);
        }
    }
    c.copies.push_back(std::move(copy));
    if (w.run->launch.order == REVERSE) land(w, c.copies.size() - 1);
}

Copy new_copy(Worker& w, const void* place, unsigned site) {
    Copy copy;
    copy.rank = w.rank;
    copy.thread = w.current->thread;
    copy.site = site;
    copy.place = as_pc(place);
    return copy;
}

}   // namespace

void land(Worker& w, size_t number) {
    Cluster& c = *w.cluster;
    Copy copy = std::move(c.copies[number]);
    c.copies.erase(c.copies.begin() + static_cast<std::ptrdiff_t>(number));
    ++c.progress;
    for (const Copy::Piece& piece : copy.pieces) write_bytes(piece.to, copy.data.data() + piece.from, piece.bytes, copy.reduction, copy.type);
    for (const Copy::Target& target : copy.targets) {
        Worker& owner = *c.members[target.rank];
        Worker& issuer = *c.members[copy.rank];
        const unsigned bytes = static_cast<unsigned>(copy.data.size()), counted = copy.bytes ? copy.bytes : bytes;
        if (owner.is_done) {
            report_of(issuer, copy.thread, ENDED_BLOCK, copy.place, true, issuer.shared_base + copy.offset, bytes, {0, owner.block_number, 0}, {1});
            continue;
        }
        const auto found = owner.mbarriers.find(copy.barrier);
        if (copy.pieces.empty()) write_bytes(reinterpret_cast<uint8_t*>(owner.shared_base + copy.offset), copy.data.data(), bytes, copy.reduction, copy.type);
        if (found == owner.mbarriers.end()) continue;   // it was invalidated
        Barrier& barrier = found->second;
        if (copy.pieces.empty()) {
            barrier.landed.push_back({copy.offset, copy.offset + bytes, target.clock, copy.thread, copy.rank, copy.site});
        } else {
            for (const Copy::Piece& piece : copy.pieces) {
                const auto offset = static_cast<unsigned>(reinterpret_cast<uintptr_t>(piece.to) - owner.shared_base);
                mark_written(owner, offset, piece.bytes, barrier.agent, target.clock, copy.site, IN_FLIGHT);
                barrier.landed.push_back({offset, offset + piece.bytes, target.clock, copy.thread, copy.rank, copy.site});
            }
        }
        if (copy.known) {
            reserve(owner, barrier.known);
            join(barrier.known, *copy.known);
        }
        if (copy.arrives) {
            if (barrier.pending) --barrier.pending;
            reserve(owner, barrier.known);
        } else {
            barrier.bytes -= counted;
            if (barrier.bytes < 0 && barrier.pending == 0)
                report_of(issuer, copy.thread, UNEXPECTED_BYTES, copy.place, true, issuer.shared_base + copy.barrier, bytes,
                          {barrier.expected_at, owner.block_number, barrier.thread, true}, {2, barrier.phase, static_cast<uint64_t>(-barrier.bytes)});
        }
        complete_if_all(owner, copy.barrier, barrier);
    }
}

void check_bulk_stores(Worker& w, uintptr_t address, unsigned bytes, bool writes, const void* place) {
    for (const Copy& copy : w.cluster->copies) {
        if (!copy.targets.empty()) continue;
        for (const Copy::Piece& piece : copy.pieces) {
            const auto begin = reinterpret_cast<uintptr_t>(piece.to);
            if (address + bytes <= begin || begin + piece.bytes <= address) continue;
            const Worker& issuer = *w.cluster->members[copy.rank];
            report_with(w, UNFINISHED_COPY, as_pc(place), writes, address, bytes, other_at(issuer, copy.thread, copy.place, true), {2});
            return;
        }
    }
}

namespace {

// ---- bulk copies ----

constexpr unsigned CHUNK_BYTES = 16;

// Checks and counts what a copy reads or writes of global memory, in chunks.
void access_global(Worker& w, const uint8_t* global, unsigned bytes, unsigned how, const void* place, unsigned& told) {
    if (!sees_accesses(w)) return;
    for (unsigned at = 0; at < bytes; at += CHUNK_BYTES) {
        const auto address = reinterpret_cast<uintptr_t>(global + at);
        const unsigned size = std::min(bytes - at, CHUNK_BYTES);
        on_other_access(address, size, how | UNCOUNTED | IS_PART, COPY, place, size == CHUNK_BYTES ? size : 1);
        if (!checks(w) || how & WRITES || told >> 8 & 1) continue;
        // What threads of this block wrote must be behind a fence.
        for (unsigned i = 0; i < w.run->launch.operand_count; ++i) {
            const Operand& o = w.run->launch.operands[i];
            if (address - o.begin >= o.bytes || !o.writes) continue;
            const uint64_t* const words = o.writes + 2 * ((address - o.begin) / o.granule);
            const Stamp stamp = {__atomic_load_n(words, __ATOMIC_RELAXED), __atomic_load_n(words + 1, __ATOMIC_RELAXED)};
            if (stamp.who <= BEFORE || stamp.block() != w.block_number || w.run->sites[stamp.site()].kind == COPY) continue;
            if (is_fenced(w, w, stamp.thread(), stamp.epoch(), stamp.clock())) continue;
            told |= 1u << 8;
            report(w, NO_PROXY_FENCE, as_pc(place), false, address, size, other_at(w, stamp.thread(), pc_of(*w.run, stamp.site()), true));
            break;
        }
    }
}

// A prefetch to L2 reads nothing that a thread gets, and its address and size are multiples of 16 bytes, which rows need
// not be: chunks that hold at least one byte of an array are in bounds.
void prefetch(Worker& w, const uint8_t* global, unsigned bytes, const void* place, unsigned& told) {
    for (unsigned at = 0; at < bytes; at += CHUNK_BYTES) {
        const auto chunk = reinterpret_cast<uintptr_t>(global + at);
        const auto* const first = w.run->launch.operands;
        const bool within = std::any_of(first, first + w.run->launch.operand_count, [&](const Operand& o) {
            return o.begin < chunk + CHUNK_BYTES && chunk < o.begin + o.bytes;
        });
        if (!within) access_global(w, global + at, CHUNK_BYTES, READS, place, told);
    }
}

void count(Worker& w, unsigned site, unsigned bytes, uint64_t sectors, unsigned wavefronts) {
    if (!w.run->launch.counts) return;
    SiteCounts& counts = w.counters.counts[site];
    for (auto* all : {counts.source, counts.sass}) {
        if (sectors) {
            Counts& global = all[GLOBAL];
            ++global.requests, ++global.lanes;
            global.bytes += bytes, global.units += sectors, global.ideal += (bytes + 31) / 32;
        }
        if (wavefronts) {
            Counts& shared = all[SHARED];
            ++shared.requests, ++shared.lanes;
            shared.bytes += bytes, shared.units += wavefronts, shared.ideal += (bytes + 127) / 128;
        }
    }
}

uint64_t sectors_of(uintptr_t address, unsigned bytes) { return bytes ? (address + bytes - 1) / 32 - address / 32 + 1 : 0; }

void bad_copy(Worker& w, const void* place, bool writes, uintptr_t address, CopyFault fault) {
    report_and_abort(w, BAD_BULK_COPY, place, writes, address, fault);
}

// The blocks to which a load copies, all of which have the barrier and the destination at the same offsets.
std::vector<Copy::Target> targets_of(Worker& w, unsigned shared, unsigned barrier, unsigned blocks, bool is_multicast, const void* place) {
    std::vector<Copy::Target> targets;
    const size_t count = w.cluster->members.size();
    if (!is_multicast) {
        Worker& owner = *owner_at(w, shared, place);
        if (owner_at(w, barrier, place) != &owner) bad_copy(w, place, true, w.shared_base + offset_of(owner, barrier), BARRIER_ELSEWHERE);
        targets.push_back({owner.rank, 0, 0});
        return targets;
    }
    if (blocks >> count) bad_copy(w, place, true, w.shared_base + offset_of(w, shared), NO_SUCH_BLOCKS);
    for (unsigned rank = 0; rank < count; ++rank)
        if (blocks >> rank & 1) targets.push_back({rank, 0, 0});
    return targets;
}

// The barrier of a copy in each block, and whether asynchronous operations see its initialisation.
void check_barrier(Worker& w, Worker& owner, unsigned at, const void* place) {
    const unsigned address = window_address(owner, offset_of(owner, at)) | (&owner == &w ? 0 : (owner.rank + 1) << RANK_SHIFT);
    const Found found = find_barrier(w, address, place);
    if (checks(w) && !found.barrier->fenced)
        report(w, BAD_BARRIER, as_pc(place), true, w.shared_base + found.offset, INITIALISATION_NOT_FENCED,
               {found.barrier->made_at, owner.block_number, found.barrier->thread, true});
}

// Checks the destination of a copy in shared memory.
void check_destination(Worker& w, Worker& owner, uintptr_t offset, unsigned bytes, const void* place, unsigned& told, unsigned site, bool strong) {
    if (!is_inside(owner, offset, bytes)) report_and_abort(w, OUTSIDE_SHARED, place, true, w.shared_base + offset, bytes);
    touch(w, owner, place, offset, bytes, true, site);
    if (checks(w)) check_range(w, owner, offset, bytes, true, place, told, strong);
}

// The current thread's bulk copy reads shared memory, until the thread waits for it.
void check_source(Worker& w, uintptr_t offset, unsigned bytes, const void* place, unsigned& told) {
    if (!is_inside(w, offset, bytes)) report_and_abort(w, OUTSIDE_SHARED, place, false, w.shared_base + offset, bytes);
    if (checks(w)) check_range(w, w, offset, bytes, false, place, told);
}

void join_bulk_group(Worker& w, Copy& copy, uintptr_t offset, unsigned bytes) {
    Fiber& fiber = *w.current;
    copy.group = fiber.bulk_group;
    ++fiber.bulk_open;
    fiber.bulk_at = copy.place;
    AsyncReads& reads = reads_of(w, agent_for(w, BULK_OF_THREAD | fiber.thread), fiber.bulk_group, copy.site);
    mark_chunks(w, reads.chunks, offset, bytes);
}

void need_alignment(Worker& w, uintptr_t offset, unsigned alignment, const void* place) {
    if (!checks(w)) return;
    Slot& slot = w.slots[offset >> SLOT_BITS];
    if (slot.alignment >= alignment || slot.is_dynamic) return;
    report(w, BY_LUCK, as_pc(place), true, w.shared_base + offset, alignment);
    slot.alignment = alignment;
}

}   // namespace

#pragma GCC visibility push(default)
extern "C" {

void tiledmm_copy_bulk(const BulkCopy* what) {
    Worker& w = *worker;
    const void* const place = CALLER;
    use(w);
    may_preempt(w);
    const unsigned site = find_site(*w.run, place, CHUNK_BYTES, COPY);
    auto* const global = static_cast<uint8_t*>(what->global);
    const auto address = reinterpret_cast<uintptr_t>(global);
    unsigned told = 0;
    if (what->bytes % CHUNK_BYTES || !what->bytes) bad_copy(w, place, false, address, SIZE);
    if (what->way != BETWEEN_SHARED && address % CHUNK_BYTES) bad_copy(w, place, what->way == TO_GLOBAL, address, GLOBAL_ADDRESS);
    if (what->way == TO_L2) return prefetch(w, global, what->bytes, place, told);
    const uintptr_t offset = offset_of(*owner_at(w, what->shared, place), what->shared);
    if (offset % CHUNK_BYTES) bad_copy(w, place, what->way != TO_GLOBAL, w.shared_base + offset, SHARED_ADDRESS);
    Copy copy = new_copy(w, place, site);
    copy.reduction = what->reduction;
    copy.type = what->type;
    if (what->way == TO_GLOBAL) {
        check_source(w, offset, what->bytes, place, told);
        access_global(w, global, what->bytes, what->reduction ? WRITES | IS_ATOMIC : WRITES, place, told);
        const auto* from = reinterpret_cast<const uint8_t*>(w.shared_base + offset);
        copy.data.assign(from, from + what->bytes);
        copy.pieces.push_back({global, 0, what->bytes});
        join_bulk_group(w, copy, offset, what->bytes);
        count(w, site, what->bytes, sectors_of(address, what->bytes), (what->bytes + 127) / 128);
        return issue(w, std::move(copy));
    }
    copy.targets = targets_of(w, what->shared, what->barrier, what->blocks, what->blocks != 0, place);
    copy.offset = static_cast<unsigned>(offset);
    copy.barrier = static_cast<unsigned>(offset_of(w, what->barrier));
    copy.completes = true;
    for (const Copy::Target& target : copy.targets) {
        Worker& owner = *w.cluster->members[target.rank];
        check_barrier(w, owner, what->barrier, place);
        check_destination(w, owner, offset, what->bytes, place, told, site, what->reduction);
    }
    if (what->way == BETWEEN_SHARED) {
        const uintptr_t source = offset_of(w, what->source);
        if (source % CHUNK_BYTES) bad_copy(w, place, false, w.shared_base + source, SHARED_ADDRESS);
        check_source(w, source, what->bytes, place, told);
        const auto* from = reinterpret_cast<const uint8_t*>(w.shared_base + source);
        copy.data.assign(from, from + what->bytes);
        copy.reads_block = true;
        count(w, site, what->bytes, 0, (what->bytes + 127) / 128);
    } else {
        access_global(w, global, what->bytes, READS, place, told);
        copy.data.assign(global, global + what->bytes);
        count(w, site, what->bytes, sectors_of(address, what->bytes), (what->bytes + 127) / 128);
    }
    issue(w, std::move(copy));
}

void tiledmm_copy_tensor(const TensorCopy* what) {
    Worker& w = *worker;
    const void* const place = CALLER;
    use(w);
    may_preempt(w);
    const auto at_map = reinterpret_cast<uintptr_t>(what->map);
    if (!is_map(what->map)) bad_copy(w, place, false, at_map, NO_MAP);
    TensorMap map;
    std::memcpy(&map, what->map, sizeof map);
    if (map.dimensions != what->dimensions) bad_copy(w, place, false, at_map, static_cast<CopyFault>(DIMENSIONS | map.dimensions << 8));
    const bool stores = what->way == TO_GLOBAL;
    const MapFault broken = fault(map, what->at, !stores ? MAP_LOAD : what->reduction ? MAP_REDUCE : MAP_STORE);
    if (broken) {
        const CopyFault faults[] = {NO_MAP, COORDINATE, NEGATIVE, REDUCTION};
        bad_copy(w, place, stores, at_map, faults[broken]);
    }
    unsigned told = 0;
    if (what->way == TO_L2) return for_chunks(map, what->at, [&](unsigned, uint8_t* global, unsigned, unsigned inside) {
        if (global) access_global(w, global, inside, READS, place, told);
    });
    const unsigned site = find_site(*w.run, place, CHUNK_BYTES, COPY), bytes = reached_bytes(map);
    Worker& first = *owner_at(w, what->shared, place);
    const uintptr_t offset = offset_of(first, what->shared);
    const unsigned box = window_address(first, offset);
    if (offset % 128) bad_copy(w, place, !stores, w.shared_base + offset, SWIZZLED_ADDRESS);
    need_alignment(w, offset, 128, place);
    Copy copy = new_copy(w, place, site);
    copy.reduction = what->reduction;
    constexpr ElementType TYPES[] = {U8, U16, U32, S32, U64, S64, F16, F32, F64, BF16, F32, F32, F32};
    copy.type = TYPES[map.type];
    uint64_t sectors = 0;
    // Where a byte of the box is, from its first; the window's addresses are contiguous within an array.
    const auto in_box = [&](unsigned at) { return at - box; };
    if (stores) {
        check_source(w, offset, bytes, place, told);
        const auto* const from = reinterpret_cast<const uint8_t*>(w.shared_base + offset);
        for_chunks(map, what->at, [&](unsigned run, uint8_t* global, unsigned size, unsigned) {
            if (!global) return;
            access_global(w, global, size, what->reduction ? WRITES | IS_ATOMIC : WRITES, place, told);
            sectors += sectors_of(reinterpret_cast<uintptr_t>(global), size);
            const auto begin = static_cast<unsigned>(copy.data.size());
            copy.data.resize(begin + size);
            for_pieces(map, box, run, size, [&](unsigned at, unsigned source, unsigned part) {
                std::memcpy(copy.data.data() + begin + source, from + in_box(at), part);
            });
            copy.pieces.push_back({global, begin, size});
        });
        join_bulk_group(w, copy, offset, bytes);
        count(w, site, static_cast<unsigned>(copy.data.size()), sectors, (bytes + 127) / 128);
        return issue(w, std::move(copy));
    }
    copy.targets = targets_of(w, what->shared, what->barrier, what->blocks, what->blocks != 0, place);
    copy.offset = static_cast<unsigned>(offset);
    copy.barrier = static_cast<unsigned>(offset_of(w, what->barrier));
    copy.completes = true;
    copy.bytes = loaded_bytes(map);
    for (const Copy::Target& target : copy.targets) {
        Worker& owner = *w.cluster->members[target.rank];
        check_barrier(w, owner, what->barrier, place);
        check_destination(w, owner, offset, bytes, place, told, site, false);
    }
    const auto* const before = reinterpret_cast<const uint8_t*>(first.shared_base + offset);
    copy.data.assign(before, before + bytes);   // gaps between rows stay as they are
    uint8_t row[CHUNK_BYTES];
    unsigned inside_bytes = 0;
    for_chunks(map, what->at, [&](unsigned run, uint8_t* global, unsigned size, unsigned inside) {
        if (global) {
            access_global(w, global, inside, READS, place, told);
            sectors += sectors_of(reinterpret_cast<uintptr_t>(global), inside);
            inside_bytes += inside;
        }
        for (unsigned at = 0; at < size; at += CHUNK_BYTES) {
            const unsigned here = inside > at ? std::min(inside - at, CHUNK_BYTES) : 0;
            load(map, row, global ? global + at : nullptr, CHUNK_BYTES, here);
            for_pieces(map, box, run + at, CHUNK_BYTES, [&](unsigned to, unsigned source, unsigned part) {
                std::memcpy(copy.data.data() + in_box(to), row + source, part);
            });
        }
    });
    count(w, site, inside_bytes, sectors, 0);
    count(w, site, copy.bytes, 0, (copy.bytes + 127) / 128);
    issue(w, std::move(copy));
}

void tiledmm_commit_bulk() {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    ++fiber.bulk_group;
    fiber.bulk_open = 0;
    end_if_told(w, CALLER);
}

void tiledmm_wait_for_bulk(unsigned pending, unsigned reads_only) {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    use(w);
    end_if_told(w, CALLER);
    const unsigned done = fiber.bulk_group > pending ? fiber.bulk_group - pending : 0;
    auto& copies = w.cluster->copies;
    if (!reads_only)
        for (size_t i = 0; i < copies.size();) {
            const Copy& each = copies[i];
            if (each.targets.empty() && each.rank == w.rank && each.thread == fiber.thread && each.group < done) land(w, i);
            else ++i;
        }
    const auto found = w.agent_of.find(BULK_OF_THREAD | fiber.thread);
    if (found == w.agent_of.end()) return;
    settle_reads(w, found->second, done);
    agent(w, found->second).clock = std::max(agent(w, found->second).clock, done);
    learn_agent(w, fiber, found->second, done);
}

void tiledmm_store_async(unsigned to, unsigned at, const void* value, unsigned bytes, Reduction reduction, ElementType type) {
    Worker& w = *worker;
    const void* const place = CALLER;
    use(w);
    may_preempt(w);
    const unsigned site = find_site(*w.run, place, bytes, COPY);
    unsigned told = 0;
    Copy copy = new_copy(w, place, site);
    copy.targets = targets_of(w, to, at, 0, false, place);
    Worker& owner = *w.cluster->members[copy.targets[0].rank];
    const uintptr_t offset = offset_of(owner, to);
    if (offset % bytes) report_and_abort(w, MISALIGNED, place, true, w.shared_base + offset, bytes);
    check_barrier(w, owner, at, place);
    check_destination(w, owner, offset, bytes, place, told, site, reduction);
    copy.offset = static_cast<unsigned>(offset);
    copy.barrier = static_cast<unsigned>(offset_of(owner, at));
    copy.completes = true;
    copy.reduction = reduction;
    copy.type = type;
    const auto* from = static_cast<const uint8_t*>(value);
    copy.data.assign(from, from + bytes);
    auto known = std::make_shared<Knowledge>();   // it completes with release semantics
    add_known(w, *w.current, *known);
    ++w.current->clock;
    copy.known = known;
    count(w, site, bytes, 0, 1);
    issue(w, std::move(copy));
}

// ---- mbarriers ----

void tiledmm_barrier_init(unsigned at, unsigned arrivals) {
    Worker& w = *worker;
    const void* const place = CALLER;
    use(w);
    const uintptr_t offset = offset_of(w, at), address = w.shared_base + offset;
    if (at >> RANK_SHIFT) report_and_abort(w, BAD_BARRIER, place, true, address, WAITS_ELSEWHERE);
    if (arrivals == 0 || arrivals > MOST_ARRIVALS) report_and_abort(w, BAD_BARRIER, place, true, address, BAD_ARRIVALS);
    const auto known = w.mbarriers.find(static_cast<unsigned>(offset));
    if (known != w.mbarriers.end()) {
        report(w, BAD_BARRIER, as_pc(place), true, address, IN_USE, {known->second.made_at, w.block_number, known->second.thread, true});
        w.mbarriers.erase(known);
    }
    if (sees_accesses(w)) on_other_access(address, 8, WRITES, STORE, place, 8);
    Barrier barrier;
    barrier.arrivals = barrier.pending = arrivals;
    barrier.agent = agent_of_barrier(w, static_cast<unsigned>(offset));
    barrier.thread = w.current->thread;
    barrier.epoch = block_epoch(w);
    barrier.clock = w.current->clock;
    barrier.made_at = as_pc(place);
    w.mbarriers[static_cast<unsigned>(offset)] = std::move(barrier);
}

void tiledmm_barrier_invalidate(unsigned at) {
    Worker& w = *worker;
    const Found found = find_barrier(w, at, CALLER);
    if (found.owner != &w) report_and_abort(w, BAD_BARRIER, CALLER, true, w.shared_base + found.offset, WAITS_ELSEWHERE);
    w.mbarriers.erase(found.offset);
    if (sees_accesses(w)) on_other_access(w.shared_base + found.offset, 8, WRITES, STORE, CALLER, 8);
}

unsigned long long tiledmm_barrier_arrive(unsigned at, unsigned arrivals, unsigned bytes, unsigned flags) {
    Worker& w = *worker;
    use(w);
    may_preempt(w);
    end_if_told(w, CALLER);
    return arrive(w, find_barrier(w, at, CALLER), arrivals, bytes, flags, CALLER);
}

void tiledmm_barrier_expect(unsigned at, unsigned bytes, unsigned) {
    Worker& w = *worker;
    use(w);
    const Found found = find_barrier(w, at, CALLER);
    found.barrier->bytes += bytes;
    found.barrier->expected_at = as_pc(CALLER);
    if (found.barrier->bytes > MOST_BYTES) report(w, BAD_BARRIER, as_pc(CALLER), true, w.shared_base + found.offset, TOO_MANY_BYTES);
}

void tiledmm_barrier_complete(unsigned at, unsigned bytes, unsigned) {
    Worker& w = *worker;
    use(w);
    const Found found = find_barrier(w, at, CALLER);
    found.barrier->bytes -= bytes;
    complete_if_all(*found.owner, found.offset, *found.barrier);
}

bool tiledmm_barrier_wait(unsigned at, unsigned long long phase, unsigned flags) {
    Worker& w = *worker;
    const void* const place = CALLER;
    use(w);
    may_preempt(w);
    end_if_told(w, place);
    Fiber& fiber = *w.current;
    const unsigned offset = find_barrier(w, at, place).offset;
    if (at >> RANK_SHIFT && owner_of(w, at) != &w) report_and_abort(w, BAD_BARRIER, place, false, w.shared_base + offset, WAITS_ELSEWHERE);
    const auto barrier = [&]() -> Barrier& { return w.mbarriers[offset]; };
    const unsigned wanted = flags & PARITY ? (barrier().phase & 1) == (phase & 1) ? barrier().phase : barrier().phase - 1
                                           : static_cast<unsigned>(phase >> 32);
    const auto is_complete = [&] { return static_cast<int>(barrier().phase - wanted) > 0; };
    const bool at_once = is_complete();
    if (!at_once) {
        fiber.wait = {Wait::PHASE, place, offset, wanted, true};
        if (fiber.polls++ == 0) {
            leave(w, State::READY);   // the first try fails, as it may: who does not try again is wrong
            if (!is_complete()) return false;
        } else if (!sleep_until_over(w)) {
            return false;
        }
    }
    if (w.mbarriers.find(offset) == w.mbarriers.end()) return true;
    fiber.polls = 0;
    fiber.last_wait = {place, offset, wanted + 1};
    if (!(flags & RELAXED)) learn(w, fiber, barrier().done);
    settle(w, barrier());
    return true;
}

unsigned tiledmm_barrier_pending(unsigned long long token) { return static_cast<unsigned>(token); }

// The thread's copies by cp.async so far arrive together, and then it does.
void tiledmm_barrier_arrive_after_copies(unsigned at, unsigned flags) {
    Worker& w = *worker;
    const void* const place = CALLER;
    use(w);
    Fiber& fiber = *w.current;
    const Found found = find_barrier(w, at, place);
    if (!(flags & NO_INCREMENT)) ++found.barrier->pending;
    add_known(w, fiber, found.barrier->known);
    ++fiber.clock;
    found.barrier->arrived_at = as_pc(place);
    Copy copy = new_copy(w, place, find_site(*w.run, place, 8, STORE));
    for (const Pending& each : fiber.pending) {
        copy.pieces.push_back({each.shared, static_cast<unsigned>(copy.data.size()), each.bytes});
        copy.data.insert(copy.data.end(), each.data, each.data + each.bytes);
        copy.site = each.site;
    }
    fiber.pending.clear();
    fiber.groups.clear();
    copy.targets.push_back({found.owner->rank, 0, 0});
    copy.barrier = found.offset;
    copy.arrives = true;
    issue(w, std::move(copy));
}

static void fence_initialisations(Worker& w) {
    for (auto& [offset, barrier] : w.mbarriers) {
        if (barrier.fenced) continue;
        const bool known = barrier.thread == w.current->thread || barrier.epoch < block_epoch(w) || knows(w, barrier.thread, barrier.clock);
        if (!known) continue;
        barrier.fenced = true;
        barrier.fenced_at = w.cluster->phase;
    }
}

void tiledmm_barrier_init_fence() {
    use(*worker);
    fence_initialisations(*worker);
}

void tiledmm_proxy_fence(unsigned) {
    Worker& w = *worker;
    use(w);
    Fiber& fiber = *w.current;
    fence_initialisations(w);
    fiber.proxy.fence = {true, block_epoch(w), ++fiber.clock};
    fiber.proxy.others = fiber.others;
    for (unsigned lane = 0; lane < WARP; ++lane) fiber.proxy.known[lane] = std::max(fiber.known[lane], w.warps[fiber.thread / WARP].full);
    fiber.proxy.known[fiber.thread % WARP] = fiber.clock;
}

// ---- clusters ----

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
        if (address - each->shared_base < each->shared_span) return reinterpret_cast<void*>(w.cluster->members[rank]->shared_base + (address - each->shared_base));
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

void tiledmm_arrive_at_cluster(unsigned relaxed) {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    Cluster& c = *w.cluster;
    use(w);
    may_preempt(w);
    end_if_told(w, CALLER);
    if (fiber.at_cluster) report_and_abort(w, BAD_CLUSTER_BARRIER, CALLER, false, 0, ARRIVES_TWICE);
    if (relaxed) reserve(w, c.known);
    else add_known(w, fiber, c.known);
    ++fiber.clock;
    fiber.at_cluster = true;
    fiber.cluster_phase = c.phase;
    ++c.arrived;
    complete_cluster_barrier(c);
}

void tiledmm_wait_at_cluster(unsigned relaxed) {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    use(w);
    end_if_told(w, CALLER);
    if (!fiber.at_cluster) report_and_abort(w, BAD_CLUSTER_BARRIER, CALLER, false, 0, NOT_ARRIVED);
    fiber.wait = {Wait::CLUSTER, CALLER, 0, fiber.cluster_phase, false};
    sleep_until_over(w);
    fiber.at_cluster = false;
    if (!relaxed) learn(w, fiber, w.cluster->done);
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

// ---- wgmma ----

// Registers hold this while a wgmma that writes them is in flight: a NaN.
constexpr uint32_t NOT_YET = 0x7fdfdfdf;

// The registers of the current thread that a wgmma uses from now on. Variables side by side are one range.
static void put_in_flight(Fiber& fiber, uintptr_t address, bool is_sum, unsigned group, uint64_t place) {
    for (InFlight& each : fiber.in_flight) {
        if (each.is_sum != is_sum || address < each.begin || address > each.end) continue;
        if (address == each.end) {
            if (each.group != group || each.is_complete) continue;
            each.end += 4;
        }
        each.group = group;
        each.place = place;
        each.is_complete = false;
        return;
    }
    fiber.in_flight.push_back({address, address + 4, is_sum, false, group, place});
}

void on_register(Worker& w, uintptr_t address, unsigned bytes, bool writes, const void* place) {
    Fiber& fiber = *w.current;
    for (const InFlight& each : fiber.in_flight) {
        if (address + bytes <= each.begin || each.end <= address) continue;
        if (each.is_complete) {
            fiber.has_wgmma_fence = fiber.has_wgmma_fence && !writes;
            continue;
        }
        if (!each.is_sum && !writes) continue;
        const Products& products = w.products[fiber.thread / WARP];
        report_with(w, REGISTER_IN_FLIGHT, as_pc(place), writes, 0, each.is_sum ? 1 : 0, {each.place, w.block_number, fiber.thread, each.is_sum},
                    {each.is_sum, each.group < products.committed});
        return;
    }
}

// All lanes of a warp have come to a wgmma: computes its 16 rows.
static void multiply_in_warp(Worker& w, unsigned warp) {
    Fiber* const lanes = &w.fibers[warp * WARP];
    Products& products = w.products[warp];
    const Wgmma& first = *static_cast<const Wgmma*>(lanes[0].wgmma);
    const void* const place = lanes[0].barrier;
    const uint64_t pc = as_pc(place);
    Fiber* const current = w.current;
    // What any lane knows counts, and any lane's fence.
    std::vector<unsigned> threads;
    for (unsigned lane = 0; lane < WARP; ++lane) threads.push_back(warp * WARP + lane);
    for (unsigned lane = 0; lane < WARP; ++lane) {
        const Wgmma& each = *static_cast<const Wgmma*>(lanes[lane].wgmma);
        if (lanes[lane].proxy.fence.done && (!w.current->proxy.fence.done || lanes[lane].proxy.fence.clock > w.current->proxy.fence.clock)) w.current = &lanes[lane];
        if (each.a_descriptor == first.a_descriptor && each.b_descriptor == first.b_descriptor && each.scale_d == first.scale_d) continue;
        w.current = &lanes[lane];
        report(w, BAD_WGMMA, pc, false, 0, LANES_DIFFER);
        w.current = &lanes[0];
    }
    Fiber& asks = *w.current;
    const auto others = asks.others;
    for (unsigned lane = 0; lane < WARP; ++lane) learn(w, asks, lanes[lane].others);

    const unsigned site = find_site(*w.run, place, CHUNK_BYTES, LOAD);
    const unsigned group = products.committed, number = agent_for(w, WGMMA_OF_WARPGROUP | warp / 4);
    unsigned told = 0, read_bytes = 0;
    AsyncReads* const reads = &reads_of(w, number, group, site);
    const auto read = [&](unsigned at, unsigned bytes) -> const void* {
        const uintptr_t offset = offset_of(w, at);
        if (!is_inside(w, offset, bytes)) {
            report(w, OUTSIDE_SHARED, pc, false, w.shared_base + offset, bytes);
            abort_launch(w);
        }
        if (checks(w)) {
            check_range(w, w, offset, bytes, false, place, told);
            mark_chunks(w, reads->chunks, offset, bytes);
        }
        read_bytes += bytes;
        return reinterpret_cast<const void*>(w.shared_base + offset);
    };
    const auto bytes_of = [](ElementType type) { return type == TF32 ? 4u : type == F16 || type == BF16 ? 2u : 1u; };
    std::vector<uint8_t> a(16 * 32), b(first.n * 32);
    unsigned total = 0;
    if (first.a_in_registers) {
        uint32_t registers[32][4];
        for (unsigned lane = 0; lane < WARP; ++lane) std::memcpy(registers[lane], static_cast<const Wgmma*>(lanes[lane].wgmma)->a, sizeof registers[lane]);
        pack_rows(registers, a.data());
    } else {
        const Descriptor d = decode(first.a_descriptor);
        gather(d, first.transposes_a, warp % 4 * 16, 16, first.k, bytes_of(first.a_type), read, a.data());
        total += wavefronts(16, first.k, bytes_of(first.a_type));
    }
    const Descriptor d = decode(first.b_descriptor);
    gather(d, first.transposes_b, 0, first.n, first.k, bytes_of(first.b_type), read, b.data());
    total += wavefronts(first.n, first.k, bytes_of(first.b_type));
    asks.others = others;
    w.current = current;

    // The sums: in flight already if the wgmma before has the same registers.
    const unsigned registers = first.registers;
    std::vector<uintptr_t> places;
    for (unsigned i = 0; i < registers; ++i) places.push_back(reinterpret_cast<uintptr_t>(first.sums[i]));
    Products::Sums* sums = nullptr;
    for (Products::Sums& each : products.sums)
        if (each.places == places && !each.delivered) sums = &each;
    if (!sums) {
        products.sums.push_back({places, std::vector<uint32_t>(WARP * registers), std::vector<uint32_t*>(WARP * registers), registers, 0, 0});
        sums = &products.sums.back();
        for (unsigned lane = 0; lane < WARP; ++lane)
            for (unsigned i = 0; i < registers; ++i) {
                auto* const to = static_cast<uint32_t*>(static_cast<const Wgmma*>(lanes[lane].wgmma)->sums[i]);
                sums->to[lane * registers + i] = to;
                sums->values[lane * registers + i] = *to;
                *to = NOT_YET;
            }
    }
    sums->group = group;
    multiply(first, a.data(), b.data(), sums->values.data());
    for (unsigned lane = 0; lane < WARP; ++lane) {
        const Wgmma& each = *static_cast<const Wgmma*>(lanes[lane].wgmma);
        for (unsigned i = 0; i < registers; ++i) put_in_flight(lanes[lane], reinterpret_cast<uintptr_t>(each.sums[i]), true, group, pc);
        for (unsigned i = 0; i < 4 && each.a_in_registers; ++i)
            if (each.a_places[i]) put_in_flight(lanes[lane], reinterpret_cast<uintptr_t>(each.a_places[i]), false, group, pc);
    }
    ++products.open;
    products.issued_at = pc;
    if (!w.run->launch.counts) return;
    w.counters.counts[site].flops += 2ull * 16 * first.n * first.k;
    for (auto* all : {w.counters.counts[site].source, w.counters.counts[site].sass}) {
        Counts& shared = all[SHARED];
        ++shared.requests, shared.lanes += WARP;
        shared.bytes += read_bytes, shared.units += total, shared.ideal += (read_bytes + 127) / 128;
    }
}

// Whether the current thread belongs to four whole warps, as wgmma needs; it ends if not.
static void need_warpgroup(Worker& w, const void* place) {
    const unsigned first = w.current->thread / WARP / 4 * 4;
    if ((first + 4) * WARP > w.run->threads) report_and_abort(w, BAD_WGMMA, place, false, 0, NO_WARPGROUP);
}

#pragma GCC visibility push(default)
extern "C" {

void tiledmm_wgmma(const Wgmma* product) {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    use(w);
    need_warpgroup(w, CALLER);
    if (!fiber.has_wgmma_fence) report(w, BAD_WGMMA, as_pc(CALLER), false, 0, NO_FENCE);
    fiber.wgmma = product;
    sync_warp(~0u, CALLER, WGMMA, multiply_in_warp);
}

void tiledmm_wgmma_fence() {
    Worker& w = *worker;
    use(w);
    need_warpgroup(w, CALLER);
    w.current->has_wgmma_fence = true;
    sync_warp(~0u, CALLER, WGMMA_FENCE);
}

static void commit_in_warp(Worker& w, unsigned warp) {
    ++w.products[warp].committed;
    w.products[warp].open = 0;
    wake(w);
}

void tiledmm_wgmma_commit() {
    Worker& w = *worker;
    use(w);
    need_warpgroup(w, CALLER);
    sync_warp(~0u, CALLER, WGMMA_COMMIT, commit_in_warp);
}

// A group is complete when all four warps have come to it.
void tiledmm_wgmma_wait(unsigned pending) {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    use(w);
    need_warpgroup(w, CALLER);
    end_if_told(w, CALLER);
    sync_warp(~0u, CALLER, WGMMA_WAIT);
    const unsigned warp = fiber.thread / WARP, lane = fiber.thread % WARP;
    Products& products = w.products[warp];
    const unsigned done = products.committed > pending ? products.committed - pending : 0;
    fiber.wait = {Wait::WARPGROUP, CALLER, 0, done, false};
    sleep_until_over(w);
    for (size_t i = 0; i < products.sums.size(); ++i) {
        Products::Sums& sums = products.sums[i];
        if (sums.group >= done || sums.delivered >> lane & 1) continue;
        for (unsigned j = 0; j < sums.registers; ++j) *sums.to[lane * sums.registers + j] = sums.values[lane * sums.registers + j];
        sums.delivered |= 1u << lane;
    }
    products.sums.erase(std::remove_if(products.sums.begin(), products.sums.end(), [](const Products::Sums& each) { return each.delivered == ~0u; }),
                        products.sums.end());
    for (InFlight& each : fiber.in_flight)
        if (each.group < done) each.is_complete = true;
    const unsigned number = agent_for(w, WGMMA_OF_WARPGROUP | warp / 4);
    Warpgroup& warpgroup = w.warpgroups[warp / 4];
    if (warpgroup.settled < done) {
        settle_reads(w, number, done);
        warpgroup.settled = done;
        agent(w, number).clock = std::max(agent(w, number).clock, done);
    }
    learn_agent(w, fiber, number, done);
}

// ---- setmaxnreg ----

// Of a thread, rounded down to what setmaxnreg can say. A thread that begins with so many may have fewer: the compiler
// allocates no more than the kernel's largest setmaxnreg.
static constexpr unsigned MOST_REGISTERS = 255 & ~7;

static void change_registers(Worker& w, unsigned warp) {
    const Waiting& wait = w.current->wait;   // barrier: how many registers
    unsigned& now = w.registers[warp];
    if (wait.barrier >= now) return;
    w.free_registers += (now - wait.barrier) * WARP;
    now = wait.barrier;
    wake(w);
}

void tiledmm_set_registers(unsigned count, unsigned increases) {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    use(w);
    need_warpgroup(w, CALLER);
    end_if_told(w, CALLER);
    const unsigned warp = fiber.thread / WARP;
    if (!increases && count > w.registers[warp]) report_and_abort(w, BAD_REGISTERS, CALLER, false, w.registers[warp], MORE_BY_DEC);
    if (increases && count < w.registers[warp] && w.registers[warp] != MOST_REGISTERS)
        report_and_abort(w, BAD_REGISTERS, CALLER, false, w.registers[warp], FEWER_BY_INC);
    fiber.wait = {Wait::REGISTERS, CALLER, count, 0, false};
    sync_warp(~0u, CALLER, SET_REGISTERS, increases ? nullptr : change_registers);
    while (w.registers[warp] < count) {
        const unsigned need = (count - w.registers[warp]) * WARP;
        if (w.free_registers >= need) {
            w.free_registers -= need;
            w.registers[warp] = count;
            wake(w);
            break;
        }
        fiber.wait = {Wait::REGISTERS, CALLER, count, need, false};
        sleep_until_over(w);
    }
}

}   // extern "C"
#pragma GCC visibility pop

// ---- begin and end ----

void begin_asynchronous(Worker& w) {
    const unsigned most = std::min(65536 / (w.run->warps * WARP) & ~7u, MOST_REGISTERS);   // registers of a thread
    w.is_blocked = w.is_done = w.is_asynchronous = w.has_others = false;
    w.agents.clear();
    w.agent_of.clear();
    w.mbarriers.clear();
    w.async_reads.clear();
    w.warpgroups.assign((w.run->warps + 3) / 4, {});
    w.products.assign(w.run->warps, {});
    w.registers.assign(w.run->warps, most);
    w.free_registers = 0;
    w.remote.clear();
    w.last_remote.clear();
    w.at_end = {};
}

void begin_asynchronous(Fiber& fiber) {
    fiber.proxy.fence = {};
    fiber.proxy.others.reset();
    fiber.last_wait = {};
    fiber.polls = fiber.bulk_group = fiber.bulk_open = fiber.cluster_phase = 0;
    fiber.at_cluster = fiber.has_wgmma_fence = false;
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
            if (w.agent_of.count(BULK_OF_THREAD | each.thread) && w.agent_of[BULK_OF_THREAD | each.thread] == each.agent && each.clock < fiber.bulk_group)
                report_of(w, each.thread, BAD_BULK_COPY, pc_of(*w.run, each.site), false, 0, READS_NOT_WAITED, {}, {});
        }
        for (const auto& [offset, barrier] : w.mbarriers)
            for (const auto* all : {&barrier.landed, &barrier.settled})
                for (const AsyncRange& each : *all)
                    report_of(*c.members[each.rank], each.thread, BAD_BULK_COPY, pc_of(*w.run, each.site), true, w.shared_base + each.begin, NOT_WAITED, {}, {});
        for (const Copy& copy : c.copies) {
            for (const Copy::Target& target : copy.targets)
                if (target.rank == w.rank && !copy.arrives)
                    report_of(*c.members[copy.rank], copy.thread, BAD_BULK_COPY, copy.place, true, w.shared_base + copy.offset, NOT_WAITED, {}, {});
            if (copy.reads_block && copy.rank == w.rank) report_of(w, copy.thread, ENDED_BLOCK, copy.place, false, w.shared_base, 0, {0, w.block_number, 0}, {2});
        }
        for (const auto& [key, access] : w.last_remote) {
            if (includes(w, w.at_end.clocks.empty() ? nullptr : &w.at_end, access.rank, access.member, access.epoch, access.clock)) continue;
            Worker& accessor = *c.members[access.rank];
            report_of(accessor, access.thread, ENDED_BLOCK, pc_of(*w.run, access.site), access.writes, accessor.shared_base, 0, {0, w.block_number, 0}, {1});
        }
    }
    // What the block still copies arrives: a launch ends after that.
    for (size_t i = 0; i < c.copies.size();) {
        if (c.copies[i].rank == w.rank && c.copies[i].targets.empty()) land(w, i);
        else ++i;
    }
}
