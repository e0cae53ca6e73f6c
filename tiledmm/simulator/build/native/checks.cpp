// Checks each access of instrumented code, and keeps the findings.
//
// Kernels are compiled with -fsanitize=thread, whose callbacks are at the end of this file: they get each access before it
// happens, with its address and the place in the code. Other sanitizers' callbacks get what those do not see: accesses to a
// thread's own variables, and arithmetic that C++ leaves undefined.
//
// Depends on: checks.h, dependent_launches.h, fibers.h, guards.h, heap.h, ordering.h, origins.h, readers.h, releases.h, schedule.h, state.h
#include "checks.h"
#include "dependent_launches.h"
#include "fibers.h"
#include "guards.h"
#include "heap.h"
#include "ordering.h"
#include "origins.h"
#include "readers.h"
#include "releases.h"
#include "schedule.h"
#include "state.h"

// ---- sites ----

// From 1 on: a stamp without a site is BEFORE.
unsigned find_site(Run& run, const void* place, unsigned bytes, unsigned kind) {
    const auto pc = reinterpret_cast<uint64_t>(place);
    unsigned at = 1 + ((pc * 0x9e3779b97f4a7c15ull) >> (64 - 14)) % (SITES - 2);
    for (unsigned tries = 0; tries < SITES - 2; ++tries, at = at % (SITES - 2) + 1) {
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
    return SITES - 1;   // more than any kernel has: the rest share one
}

// ---- findings ----

unsigned find_calls(const Worker& w, uintptr_t frame, uint64_t (&calls)[MAX_CALLS]) {
    const auto stack = reinterpret_cast<uintptr_t>(stack_of(w, w.current->thread));
    unsigned count = 0;
    while (frame >= stack && frame < stack + STACK_BYTES - 16 && frame % 8 == 0) {
        const auto* words = reinterpret_cast<const uintptr_t*>(frame);
        if (in_code(*w.run, words[1])) {
            if (count == MAX_CALLS) std::copy(calls + MAX_CALLS / 2 + 1, calls + MAX_CALLS, calls + MAX_CALLS / 2);
            count = std::min(count + 1, MAX_CALLS);
            calls[count - 1] = words[1];
        }
        if (words[0] <= frame) break;
        frame = words[0];
    }
    return count;
}

Finding make_finding(const Worker& w, FindingKind kind, uint64_t pc, bool writes, uintptr_t address, unsigned bytes,
                     Other other, uintptr_t frame) {
    const Run& run = *w.run;
    Finding finding = {};
    finding.kind = kind;
    finding.count = 1;
    finding.pc = pc;
    finding.other_pc = other.pc;
    finding.writes = writes;
    finding.other_writes = other.writes;
    finding.unfenced = other.unfenced;
    finding.bytes = bytes;
    finding.address = address;
    if (kind == OUTSIDE_SHARED || address - w.shared_base < w.shared_span) {
        finding.space = SHARED;
        finding.address -= w.shared_base;
    } else {
        finding.space = GLOBAL;
    }
    if (w.current) {
        if (!frame) frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
        uint64_t calls[MAX_CALLS] = {};
        const unsigned count = find_calls(w, frame, calls);
        unsigned from = 0;   // those of the function of pc itself are not its callers
        for (unsigned i = 0; i < count; ++i)
            if (calls[i] == pc) from = i + 1;
        for (unsigned i = from; i < count; ++i) finding.calls[i - from] = calls[i];
    }
    if (w.current) {
        const unsigned first = w.current->thread / WARP * WARP, lanes = std::min(run.threads - first, WARP);
        finding.warp = first / WARP;
        finding.present = lanes == WARP ? ~0u : (1u << lanes) - 1;
        finding.one_warp = other.pc && other.block == w.block_number && other.thread / WARP == first / WARP;
        finding.mask = w.current->waits_for;
        finding.other_mask = other.mask;
        if (kind == WARP_DIFFERS || kind == WARP_NOT_REACHED) finding.details[0] = w.current->kind, finding.details[1] = w.fibers[other.thread].kind;
    }
    set(finding.block, w.block);
    set(finding.thread, w.current ? w.current->index : Index{});
    set(finding.other_block, index_of(run, other.block));
    set(finding.other_thread, thread_index(run, other.thread));
    if (finding.space == GLOBAL) add_allocation(*w.run, finding, address);
    return finding;
}

uint64_t key_of(const Finding& finding) {
    return (finding.pc * 0x9e3779b97f4a7c15ull ^ finding.other_pc) * 0x9e3779b97f4a7c15ull + finding.kind;
}

void sort_findings(Run& run) {
    if (run.launch.order == PREEMPTIVE || run.launch.cooperative) return;
    auto& all = run.findings;
    const uint64_t failed = run.first_failed;
    const uint64_t last = failed < EVERYTHING_RUNS && run.launch.chosen ? run.launch.chosen[failed] : failed;
    const auto number = [&](const Finding& each) { return number_of(run, each); };
    all.erase(std::remove_if(all.begin(), all.end(), [&](const Finding& each) { return number(each) > last; }), all.end());
    std::stable_sort(all.begin(), all.end(), [&](const Finding& a, const Finding& b) { return number(a) < number(b); });
    run.finding_index.clear();
    for (size_t i = 0; i < all.size(); ++i) run.finding_index[key_of(all[i])] = i;
}

void keep(Run& run, const Finding& finding) {
    const auto known = run.finding_index.find(key_of(finding));
    if (known != run.finding_index.end()) {
        Finding& first = run.findings[known->second];
        const uint64_t count = first.count + finding.count;
        const uint32_t one_warp = first.one_warp & finding.one_warp;
        if (run.launch.order != PREEMPTIVE && number_of(run, finding) < number_of(run, first)) first = finding;
        first.count = count;
        first.one_warp = one_warp;
        return;
    }
    const bool is_race = finding.kind == RACE_SHARED || finding.kind == RACE_GLOBAL;
    if (run.findings.size() >= (is_race ? MAX_RACES : MAX_FINDINGS)) return;
    run.finding_index.emplace(key_of(finding), run.findings.size());
    run.findings.push_back(finding);
}

void report(Worker& w, const Finding& finding) {
    std::lock_guard<std::mutex> guard(w.run->lock);
    keep(*w.run, finding);
}

void report(Worker& w, FindingKind kind, uint64_t pc, bool writes, uintptr_t address, unsigned bytes, Other other,
            uintptr_t frame) {
    report(w, make_finding(w, kind, pc, writes, address, bytes, other, frame));
}

// ---- barriers and fences: here because both units need them ----

void share_acquired(Worker& w) {
    for (Fiber& fiber : w.fibers)
        if (fiber.reads_from) acquire(w, fiber);
    if (!w.acquires) return;
    for (Fiber& fiber : w.fibers) {
        know_unfenced(w, fiber);
        for (const Acquired& each : fiber.acquired) keep_acquired(w.acquired, each);
        fiber.acquired.clear();
    }
}

void share_acquired(Worker& w, const std::vector<unsigned>& threads) {
    std::vector<Acquired> all;
    for (const unsigned thread : threads) {
        know_unfenced(w, w.fibers[thread]);
        for (const Acquired& each : w.fibers[thread].acquired) keep_acquired(all, each);
    }
    if (all.empty()) return;
    for (const unsigned thread : threads) w.fibers[thread].acquired = all;
}

void fence(Worker& w, bool for_all) {
    Fiber& fiber = *w.current;
    w.synchronizes = true;
    const Fence now = {true, block_epoch(w), ++fiber.clock};
    fiber.fences[0] = now;
    if (for_all) fiber.fences[1] = now;
    know_unfenced(w, fiber);
    FlagWrites& flags = fiber.flags;
    // At a barrier, other threads' data join its own.
    const bool has_data = flags.has_data || block_epoch(w) > 0 || w.warps[fiber.thread / WARP].synced;
    flags = {false, has_data || (flags.after_data && !flags.over), false, false};
}

// ---- shared memory ----

void look_at_overwritten(Worker& w, Fiber& fiber) {
    const Overwritten was = std::exchange(fiber.overwritten, {});
    if (!std::memcmp(was.value, reinterpret_cast<const void*>(was.address), was.bytes)) {
        if (!was.is_plain) return;   // a flag that all set to the same
        fiber.lost_update.kind = EQUAL_WRITES;
    }
    std::lock_guard<std::mutex> guard(w.run->lock);
    keep(*w.run, fiber.lost_update);
}

// Two writes that nothing orders are an error unless they write the same value, which is seen once the second is done.
void keep_overwritten(Fiber& fiber, const Finding& race, uintptr_t address, unsigned bytes, bool is_plain) {
    if (fiber.overwritten.address) return;
    fiber.lost_update = race;
    fiber.overwritten = {address, bytes, is_plain, {}};
    std::memcpy(fiber.overwritten.value, reinterpret_cast<const void*>(address), bytes);
}

// Whether an access reads: plain and volatile writes do not.
ALWAYS_INLINE bool reads(unsigned how) { return !(how & WRITES) || how & IS_ATOMIC; }

// A volatile read takes what was released at its place, and a volatile write releases what the thread fenced. Atomics do both
// when it is known whether they change the value (tiledmm_compare_and_swap).
ALWAYS_INLINE void synchronize(Worker& w, uintptr_t address, unsigned how) {
    Fiber& fiber = *w.current;
    if (fiber.reads_from) acquire(w, fiber);
    if (fiber.overwritten.address) look_at_overwritten(w, fiber);
    FlagWrites& flags = fiber.flags;
    flags.has_data = flags.has_data || !(how & IS_ATOMIC);
    if (!(how & (IS_ATOMIC | IS_VOLATILE))) return;
    w.synchronizes = true;
    if (how & WRITES) {
        if (!(how & IS_ATOMIC)) {
            std::lock_guard<std::mutex> guard(w.run->lock);
            release(w, place_of(w, address), true);
            get_on(w);
        }
        flags.have_set = true;
    } else if (flags.have_set) {
        flags.over = true;
    }
    if (!(how & WRITES)) begin_to_acquire(w, place_of(w, address));
}

// Whether an access does not race with others that are strong, too. In shared memory, volatile writes of data do: reductions
// within a warp were once written so, and need __syncwarp.
ALWAYS_INLINE bool is_strong(const Fiber& fiber, unsigned how) {
    if (how & IS_ATOMIC) return true;
    return how & IS_VOLATILE && (!(how & WRITES) || (fiber.fences[0].done && !fiber.flags.over));
}

// One cell for each byte instead of one for 4 bytes.
void refine(Worker& w) {
    for (auto* cells : {&w.reads, &w.more_reads, &w.writes}) {
        std::vector<Cell> fine(cells->size() * 4);
        for (size_t i = 0; i < fine.size(); ++i) fine[i] = (*cells)[i / 4];
        cells->swap(fine);
    }
    std::unordered_map<size_t, std::vector<LaneReaders>> fine;
    for (const auto& [at, all] : w.readers)
        for (size_t i = 0; i < 4; ++i) fine[at * 4 + i] = all;
    w.readers.swap(fine);
    w.granule_shift = 0;
}

// An earlier access of this epoch to shared memory, as those to global memory are kept.
Stamp as_stamp(const Worker& w, Cell earlier) {
    const uint64_t thread = thread_of(earlier), clock = full_clock(w, earlier);
    return {w.block_number << 32 | thread << 22, static_cast<uint64_t>(block_epoch(w)) << 24 | clock};
}

// Whether an earlier access by another thread, in the same epoch, is ordered before now.
bool is_ordered(const Worker& w, Cell earlier) {
    if (knows(w, thread_of(earlier), full_clock(w, earlier))) return true;
    return thread_of(earlier) < first_agent(w) && is_acquired(w, as_stamp(w, earlier));
}

// Whether an earlier access by another thread has nothing between it and now that orders them.
ALWAYS_INLINE bool conflicts(const Worker& w, Cell earlier, unsigned thread) {
    return epoch_of(earlier) == w.epoch && thread_of(earlier) != thread && !is_ordered(w, earlier);
}

// A plain read beside atomics of others is a race, unless the reader goes on to an atomic of its own there: the usual loop
// around atomicCAS begins with one, and so does `if (x > *most) atomicMax(most, x)`, where threads that do not go on read at
// the same place (Run::guards). An atomic behind the next barrier of the block is none that the read was for. A loop that
// waits by plain reads is no such place (Run::polls). These races wait until the launch ends, or until forget_deferred.
// `slot` has the stamp of a reader in another worker, which may come to its atomic meanwhile: either it is seen there, or
// that worker sees `defers`.
void report_unless_swapped(Worker& w, const Stamp& reader, uintptr_t cell, const Finding& finding, const uint64_t* slot = nullptr) {
    std::lock_guard<std::mutex> guard(w.run->lock);
    w.run->defers = true;
    if (slot && __atomic_load_n(slot, __ATOMIC_SEQ_CST) != reader.who) return;
    auto& all = w.run->deferred[{reader.who >> 22, reader.epoch(), cell}];
    for (Finding& each : all)
        if (each.pc == finding.pc && each.other_pc == finding.other_pc) {
            ++each.count;
            return;
        }
    all.push_back(finding);
}

void forget_deferred(Worker& w, const Stamp& reader, uintptr_t cell) {
    Run& run = *w.run;
    if (!run.defers) return;
    std::lock_guard<std::mutex> guard(run.lock);
    const auto found = run.deferred.find({reader.who >> 22, reader.epoch(), cell});
    if (found == run.deferred.end()) return;
    for (const Finding& each : found->second) run.guards.insert(each.writes ? each.other_pc : each.pc);
    run.deferred.erase(found);
}

// The current thread has come to an atomic at an address that it has read: what its read was for. Returns whether it was no wait.
bool is_guard(Worker& w, unsigned site) {
    Run& run = *w.run;
    std::lock_guard<std::mutex> guard(run.lock);
    if (run.polls.count(pc_of(run, site))) return false;
    run.guards.insert(pc_of(run, site));
    return true;
}

ALWAYS_INLINE bool is_plain_write(unsigned how) { return how == WRITES; }

// Of the readers with which a write conflicts, one is reported; of those with which an atomic does, one of each place, because
// some places are guards (Run::guards).
class Reported {
public:
    explicit Reported(unsigned how) : most_(how & IS_ATOMIC ? sizeof sites_ / sizeof sites_[0] : 1) {}
    bool has(unsigned site) const { return count_ == most_ || std::find(sites_, sites_ + count_, site) != sites_ + count_; }
    void add(unsigned site) { sites_[count_++] = site; }

private:
    unsigned sites_[8], count_ = 0, most_;
};

// Checks an access to shared memory that is inside an array. Once, not for each width: each copy takes the compiler 30 ms.
[[gnu::noinline]] void check_shared(Worker& w, size_t offset, unsigned bytes, unsigned how, unsigned site) {
    Run& run = *w.run;
    if ((bytes | offset) & 3 && w.granule_shift) refine(w);
    const unsigned thread = w.current->thread;
    const bool writes = how & WRITES;
    const Cell strong = is_strong(*w.current, how) ? STRONG : 0;
    const Cell mine = make_cell(w.epoch, cell_clock(w, *w.current), thread, site) | strong;
    const size_t first = offset >> w.granule_shift, count = bytes >> w.granule_shift;
    const unsigned agents = first_agent(w);
    size_t unset = 0;
    if (w.is_asynchronous) [[unlikely]] check_beside_asynchronous(w, offset, bytes, how, site);
    for (size_t i = first; i < first + count; ++i) {
        const Cell written = w.writes[i];
        if (thread_of(written) >= agents && epoch_of(written) >= w.first_epoch && (written & IN_FLIGHT || conflicts(w, written, thread))) {
            report_unfinished(w, w, written, offset, bytes, writes, pc_of(run, site));
            if (writes) w.writes[i] = mine;
            continue;
        }
        if (written & IN_FLIGHT && epoch_of(written) >= w.first_epoch) {
            const Other other = {pc_of(run, site_of(written)), w.block_number, thread_of(written), true};
            Finding finding = make_finding(w, ASYNC_NOT_WAITED, pc_of(run, site), writes, w.shared_base + offset, bytes, other);
            add_wait(finding, w.fibers[other.thread], w.shared_base + (i << w.granule_shift));
            report(w, finding);
            if (writes) w.writes[i] = mine;
            continue;
        }
        const uintptr_t cell = w.shared_base + (i << w.granule_shift);
        if (!(strong & written) && conflicts(w, written, thread)) {
            const Other other = {pc_of(run, site_of(written)), w.block_number, thread_of(written), true, lacks_fence(w, as_stamp(w, written))};
            const Finding race = make_finding(w, RACE_SHARED, pc_of(run, site), writes, w.shared_base + offset, bytes, other);
            if (written & STRONG && !writes) report_unless_swapped(w, as_stamp(w, mine), cell, race);
            else if (is_plain_write(how) && !(written & STRONG)) keep_overwritten(*w.current, race, w.shared_base + offset, bytes, true);
            else report(w, race);
        } else if (reads(how) && epoch_of(written) < w.first_epoch && (w.remote.empty() || !is_written_remotely(w, i))) {
            ++unset;
        }
        if (writes) {
            Reported reported(how);
            const auto look = [&](Cell read) {
                if (reported.has(site_of(read)) || strong & read || !conflicts(w, read, thread)) return;
                reported.add(site_of(read));
                if (thread_of(read) >= agents) return report_overwritten(w, read, offset, bytes, pc_of(run, site));
                const Other other = {pc_of(run, site_of(read)), w.block_number, thread_of(read), false, lacks_fence(w, as_stamp(w, read))};
                const Finding race = make_finding(w, RACE_SHARED, pc_of(run, site), true, w.shared_base + offset, bytes, other);
                if (how & IS_ATOMIC) report_unless_swapped(w, as_stamp(w, read), cell, race);
                else report(w, race);
            };
            look(w.reads[i]);
            look(w.more_reads[i]);
            if (!w.readers.empty()) for_readers(w, i, look);
            if (how & COMPARES) {
                const auto is_mine = [&](Cell read) { return epoch_of(read) == w.epoch && thread_of(read) == thread && !(read & STRONG); };
                for (Cell* read : {&w.reads[i], &w.more_reads[i]})
                    if (is_mine(*read) && is_guard(w, site_of(*read))) *read |= STRONG;
                for_readers(w, i, [&](Cell read) { if (is_mine(read)) is_guard(w, site_of(read)); });
                forget_deferred(w, as_stamp(w, mine), cell);
            }
            // A plain write stays beside strong ones: it is what others race with.
            const bool after_plain = epoch_of(written) == w.epoch && !(written & (STRONG | IN_FLIGHT));
            if (how & IS_COPY) w.writes[i] = mine | IN_FLIGHT;
            else if (!(strong && after_plain)) w.writes[i] = mine;
        } else {
            keep_reader(w, i, mine);
        }
    }
    // A vector may span padding: it is an error if nobody has written any of it.
    if (unset == count && unset) report(w, UNINITIALISED_SHARED, pc_of(run, site), false, w.shared_base + offset, bytes);
}

// ---- global memory ----

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
        if (!writes || o.writes) return Reach::INSIDE;
        best = Reach::READ_ONLY;
    }
    return best;
}

// Whether two accesses have a byte in common, and nothing orders them.
ALWAYS_INLINE bool is_unordered(const Worker& w, const Stamp& earlier, const Stamp& mine) {
    if (earlier.who <= BEFORE || !(earlier.bytes() & mine.bytes())) return false;
    if (earlier.block() == mine.block()) {
        if (earlier.thread() == mine.thread() || earlier.epoch() < mine.epoch()) return false;
        if (knows(w, earlier.thread(), earlier.clock())) return false;
    } else if (is_before_grid(w, earlier)) {
        return false;
    }
    return !is_acquired(w, earlier);
}

ALWAYS_INLINE bool conflicts(const Worker& w, const Stamp& earlier, const Stamp& mine) {
    const bool in_scope = earlier.block() == mine.block() || !((earlier.who | mine.who) & BLOCK_STAMP);
    return !(earlier.is_strong() && mine.is_strong() && in_scope) && is_unordered(w, earlier, mine);
}

ALWAYS_INLINE Stamp load_stamp(const uint64_t* words) {
    return {__atomic_load_n(words, __ATOMIC_RELAXED), __atomic_load_n(words + 1, __ATOMIC_RELAXED)};
}

// The exchange is a full barrier: of a reader and a writer in two workers, one sees the stamp of the other.
ALWAYS_INLINE Stamp exchange_stamp(uint64_t* words, Stamp mine) {
    const Stamp old = load_stamp(words);
    __atomic_store_n(words + 1, mine.when, __ATOMIC_RELAXED);
    return {__atomic_exchange_n(words, mine.who, __ATOMIC_SEQ_CST), old.when};
}

// Two readers: of different blocks if there are any; in one block, of different warps; in a warp, the last two.
ALWAYS_INLINE void keep_reader(Worker& w, uint64_t* two, const Stamp& mine) {
    const Stamp one = load_stamp(two), other = load_stamp(two + 2);
    const bool all = keeps_all_readers(w);
    const auto drop = [&](const Stamp& reader) { if (all) add_reader(w, two, reader); };
    unsigned slot = 0;
    if (one.who && (one.block() != mine.block() || one.thread() != mine.thread())) {
        slot = 1;
        const bool same_thread = other.block() == mine.block() && other.thread() == mine.thread();
        if (other.who && !same_thread) {
            if (one.block() != other.block()) {
                if (one.block() == mine.block()) slot = 0;
                else if (other.block() != mine.block()) return drop(mine);
            } else if (one.block() == mine.block() && one.thread() / WARP != other.thread() / WARP) {
                if (one.epoch() == mine.epoch() && other.epoch() == mine.epoch()) return drop(mine);
                slot = one.epoch() == mine.epoch();
            } else if (one.block() == mine.block()) {
                slot = one.when < other.when ? 0 : 1;
            }
        }
    }
    const Stamp old = exchange_stamp(two + 2 * slot, mine);
    if (all && old.who && (old.block() != mine.block() || old.thread() != mine.thread() || (mine.is_strong() && !old.is_strong()))) drop(old);
}

Other as_other(const Worker& w, const Stamp& stamp, bool writes) {
    return {pc_of(*w.run, stamp.site()), stamp.block(), stamp.thread(), writes, lacks_fence(w, stamp)};
}

constexpr uint64_t NO_DATA = ATOMIC_STAMP | FLAG_STAMP;

// Volatile accesses of data do not race in the memory model, and their order is a matter of luck where nothing gives them one.
// Two writes of different values are an error: one is lost. A read is a warning: it may be of a hint that may come late.
[[gnu::noinline]] void check_volatile(Worker& w, const Stamp& old, const Stamp& mine, bool writes, unsigned site, uintptr_t address,
                                      unsigned bytes) {
    if ((old.who | mine.who) & NO_DATA || !is_unordered(w, old, mine)) return;
    const Other other = as_other(w, old, true);
    if (!writes) {   // a counter that the writer went on to says that it is there, and is wrong without a fence
        report(w, other.unfenced == 2 ? RACE_GLOBAL : VOLATILE_DATA, pc_of(*w.run, site), false, address, bytes, other);
    } else {
        const Finding race = make_finding(w, RACE_GLOBAL, pc_of(*w.run, site), true, address, bytes, other);
        keep_overwritten(*w.current, race, address, bytes, false);
    }
}

// A volatile read that came before the write that it may as well have come after: said of the reader in either order.
[[gnu::noinline]] void check_volatile_reader(Worker& w, const Stamp& reader, const Stamp& mine, uintptr_t address, unsigned bytes) {
    if ((reader.who | mine.who) & NO_DATA || !is_unordered(w, reader, mine)) return;
    const Run& run = *w.run;
    const Other writer = {pc_of(run, mine.site()), w.block_number, w.current->thread, true};
    Finding finding = make_finding(w, VOLATILE_DATA, pc_of(run, reader.site()), false, address, bytes, writer);
    std::memset(finding.calls, 0, sizeof finding.calls);   // the writer's
    set(finding.block, index_of(run, reader.block()));
    set(finding.thread, thread_index(run, reader.thread()));
    report(w, finding);
}

void forgive_swapped(Worker& w, const Stamp& mine, uintptr_t cell, uint64_t* read) {
    const auto is_mine = [&](const Stamp& reader) {
        return reader.who >> 22 == mine.who >> 22 && reader.epoch() == mine.epoch() && !reader.is_strong();
    };
    for (unsigned slot = 0; slot < 2; ++slot) {
        const Stamp reader = load_stamp(read + 2 * slot);
        if (is_mine(reader) && is_guard(w, reader.site())) __atomic_fetch_or(read + 2 * slot, ATOMIC_STAMP, __ATOMIC_SEQ_CST);
    }
    for (const StampReaders& each : readers_of(w, read))
        if (each.lanes >> mine.thread() % WARP & 1 && is_mine(with_thread(each.stamp, mine.thread())) &&
            each.stamp.thread() / WARP == mine.thread() / WARP)
            is_guard(w, each.stamp.site());
    forget_deferred(w, mine, cell);
}

void check_global(Worker& w, const Operand& o, uintptr_t address, unsigned bytes, unsigned how, unsigned site) {
    Run& run = *w.run;
    const Fiber& fiber = *w.current;
    uint64_t flags = how & IS_ATOMIC ? VALID | ATOMIC_STAMP : how & IS_VOLATILE ? VALID | VOLATILE_STAMP : VALID;
    if (how & IS_ATOMIC && fiber.in_block_scope) flags |= BLOCK_STAMP;
    if (how == (IS_VOLATILE | WRITES) && fiber.flags.after_data && !fiber.flags.over) flags |= FLAG_STAMP;
    const uint64_t who = w.block_number << 32 | static_cast<uint64_t>(fiber.thread) << 22 | site << 8 | flags;
    const uint64_t when = static_cast<uint64_t>(block_epoch(w)) << 24 | (fiber.clock & 0xffffff);
    const uintptr_t begin = address - o.begin, end = begin + bytes;
    const bool writes = how & WRITES;
    for (uintptr_t at = begin / o.granule; at * o.granule < end; ++at) {
        if (o.valid && !o.valid[at]) continue;
        const uintptr_t from = std::max(begin, at * o.granule) - at * o.granule;
        const uintptr_t to = std::min(end - at * o.granule, o.granule);
        const Stamp mine = {who, when | ((1ull << to) - (1ull << from)) << 48};
        uint64_t *const written = o.writes + 2 * at, *const read = o.reads + 4 * at;
        const auto cell = reinterpret_cast<uintptr_t>(written);
        if (!writes) keep_reader(w, read, mine);
        const Stamp known = load_stamp(written);
        // A plain write of this epoch stays beside atomics: it is what others race with.
        const bool after_plain = how & IS_ATOMIC && known.who && !known.is_strong() && known.block() == mine.block() &&
                                 known.epoch() == mine.epoch();
        const Stamp old = writes && !after_plain ? exchange_stamp(written, mine) : known;
        if (!old.who && (how & IS_ATOMIC || !writes) && !o.defined)
            report(w, UNINITIALISED_RESULT, pc_of(run, site), false, address, bytes);
        if (old.is_strong() && mine.is_strong()) check_volatile(w, old, mine, writes, site, address, bytes);
        if (conflicts(w, old, mine)) {
            const Finding race = make_finding(w, RACE_GLOBAL, pc_of(run, site), writes, address, bytes, as_other(w, old, true));
            if (old.who & ATOMIC_STAMP && !writes) report_unless_swapped(w, mine, cell, race);
            else if (is_plain_write(how) && !old.is_strong() && old.bytes() == mine.bytes()) keep_overwritten(*w.current, race, address, bytes, true);
            else report(w, race);
        } else if (writes) {
            Reported reported(how);
            const auto look = [&](const Stamp& reader, const uint64_t* slot) {
                if (reported.has(reader.site())) return;
                if (reader.is_strong() && mine.is_strong()) check_volatile_reader(w, reader, mine, address, bytes);
                if (!conflicts(w, reader, mine)) return;
                reported.add(reader.site());
                const Finding race = make_finding(w, RACE_GLOBAL, pc_of(run, site), true, address, bytes, as_other(w, reader, false));
                if (how & IS_ATOMIC) report_unless_swapped(w, reader, cell, race, slot);
                else report(w, race);
            };
            for (const uint64_t* slot : {read, read + 2}) look(load_stamp(slot), slot);
            if (keeps_all_readers(w))
                for (const StampReaders& each : readers_of(w, read))
                    for (unsigned lanes = each.lanes; lanes; lanes &= lanes - 1)
                        look(with_thread(each.stamp, each.stamp.thread() + static_cast<unsigned>(__builtin_ctz(lanes))), nullptr);
        }
        if (how & COMPARES) forgive_swapped(w, mine, cell, read);
    }
}

// A read of elements that nobody wrote, before the launch or since. A vector may span some that are not used.
[[gnu::noinline]] void check_unwritten(Worker& w, const Operand& o, uintptr_t address, unsigned bytes, const void* place) {
    for (uintptr_t at = (address - o.begin) / o.granule; at * o.granule < address - o.begin + bytes; ++at)
        if (!o.unwritten[at] || (o.writes && load_stamp(o.writes + 2 * at).who)) return;
    report(w, UNINITIALISED_RESULT, reinterpret_cast<uint64_t>(place), false, address, bytes);
}

// Whether an address is in the kernel's constants without names.
ALWAYS_INLINE bool is_constant(const Run& run, uintptr_t address) {
    return address - run.launch.constants < run.launch.constants_end - run.launch.constants;
}

// ---- accesses ----

[[gnu::noinline]] void report_and_abort(Worker& w, FindingKind kind, const void* place, bool writes, uintptr_t address, unsigned bytes) {
    report(w, kind, reinterpret_cast<uint64_t>(place), writes, address, bytes);
    abort_launch(w);
}

// Ends a thread at an access because the launch is to end; the first one says so where the time is up.
[[gnu::noinline]] void stop_thread(Worker& w, const void* place, bool writes, uintptr_t address, unsigned bytes) {
    if (w.run->timed_out.exchange(false)) report_and_abort(w, TIMED_OUT, place, writes, address, bytes);
    abort_launch(w);
}

[[gnu::noinline]] void end_as_told(Worker& w, const void* place) {
    const auto kind = static_cast<FindingKind>(w.ends.exchange(0) - 1);
    if (kind == TIMED_OUT) stop_thread(w, place, false, 0, 0);
    report_and_abort(w, kind, place, false, 0, 0);
}

// A thread that has made many accesses: whether it makes too many, or spins.
[[gnu::noinline]] void look_at_steps(Worker& w, const void* place, unsigned how, uintptr_t address, unsigned bytes) {
    Fiber& fiber = *w.current;
    const bool writes = how & WRITES;
    const uint64_t most = w.run->launch.max_steps;
    if (most && fiber.steps > most) report_and_abort(w, RUNAWAY, place, writes, address, bytes);
    if (fiber.samples == 0) {
        fiber.spin_count = 0;
        fiber.spin_writes = false;
        fiber.samples = SPIN_SAMPLE;
    }
    fiber.spin_writes = fiber.spin_writes || writes;
    bool known = false;
    for (unsigned i = 0; i < fiber.spin_count; ++i) known = known || fiber.spin_at[i] == address;
    if (!known && fiber.spin_count < SPIN_ADDRESSES) {
        fiber.spin_at[fiber.spin_count++] = address;
        known = true;
    }
    if (!known) {   // it goes on
        fiber.samples = 0;
        fiber.limit = fiber.steps + SPIN_SLICE;
        w.spin_rounds = 0;
        get_on(w);
    } else if (--fiber.samples == 0) {
        fiber.limit = fiber.steps + 1;
        const uint64_t finished = w.run->finished.load(std::memory_order_relaxed);
        const bool alone = finished >= w.earlier && !is_cooperative(w);   // all blocks before this one have ended
        const bool stopping = is_stopping(*w.run);   // it may wait for a block that has ended
        w.spin_rounds = finished == w.seen_finished && (alone || stopping) ? w.spin_rounds + 1 : 0;
        w.seen_finished = finished;
        if (w.spin_rounds > SPIN_ROUNDS && stopping) abort_block(w);
        if (w.spin_rounds > SPIN_ROUNDS || all_wait(w)) report_and_abort(w, WAITS_FOR_EVER, place, writes, address, bytes);
        if (how == READS && !fiber.spin_writes) {
            std::lock_guard<std::mutex> guard(w.run->lock);
            w.run->polls.insert(reinterpret_cast<uint64_t>(place));
        }
        leave(w, State::SPINS);
    } else {
        fiber.limit = fiber.steps + 1;
    }
    if (most && fiber.limit > most + 1) fiber.limit = most + 1;
}

// An access that is aligned because the array is, by more than its declaration says. Once for each array.
[[gnu::noinline]] void report_luck(Worker& w, Slot& slot, const void* place, bool writes, uintptr_t address, unsigned alignment) {
    if (w.run->launch.checks) report(w, BY_LUCK, reinterpret_cast<uint64_t>(place), writes, address, alignment);
    slot.alignment = MOST_ALIGNMENT;
}

ALWAYS_INLINE uintptr_t distance(uintptr_t address, uintptr_t begin, uintptr_t bytes) {
    return address - begin < bytes ? 0 : std::min(begin - address, address - begin - bytes);
}

// Whether an access that is in no array was to be one to shared memory: no array in global memory is as close. Where a 32-bit
// index wraps below 0, the address is 2^32 elements above the one that was meant.
[[gnu::noinline]] bool is_beside_shared(const Worker& w, uintptr_t address, unsigned bytes) {
    const Launch& launch = w.run->launch;
    if (!launch.array_count) return false;
    for (const uintptr_t at : {address, address - (static_cast<uintptr_t>(bytes) << 32)}) {
        uintptr_t closest = REACH;
        for (unsigned i = 0; i < launch.operand_count; ++i)
            closest = std::min(closest, distance(at, launch.operands[i].begin, launch.operands[i].bytes));
        if (distance(at, w.shared_base, w.shared_span) < closest) return true;
        if (closest < REACH) return false;
    }
    return false;
}

// A thread whose stack is deeper than any was.
[[gnu::noinline]] void note_depth(Worker& w, uintptr_t frame, const void* place) {
    Fiber& fiber = *w.current;
    const uint64_t depth = reinterpret_cast<uintptr_t>(stack_top(w, fiber.thread)) - frame;
    fiber.floor = frame;
    if (depth > STACK_BYTES - GUARD_BYTES) report_and_abort(w, STACK_OVERFLOW, place, false, 0, 0);
    if (depth <= w.deepest || depth > STACK_BYTES) return;
    w.deepest = depth;
    w.deepest_pc = reinterpret_cast<uint64_t>(place);
}

// An access to memory of malloc. Returns the heap.
[[gnu::noinline]] const Operand* check_heap(Worker& w, uintptr_t address, unsigned bytes, unsigned how, const void* place) {
    const bool writes = how & WRITES;
    const InHeap found = look_in_heap(*w.run, address, bytes);
    if (found == InHeap::OUTSIDE) report_and_abort(w, OUTSIDE_GLOBAL, place, writes, address, bytes);
    if (found == InHeap::FREED_MEMORY) {
        report(w, FREED_MEMORY, reinterpret_cast<uint64_t>(place), writes, address, bytes, who_freed(*w.run, address));
        abort_launch(w);
    }
    if (w.run->launch.checks && reads(how) && is_unset_in_heap(*w.run, address, bytes))
        report(w, UNSET_HEAP, reinterpret_cast<uint64_t>(place), false, address, bytes);
    return &w.run->heap.operand;
}

// Memory is freed by a thread that comes after all others that access it.
void on_free(Worker& w, uintptr_t address, const void* place) {
    Run& run = *w.run;
    uint64_t bytes = 0;
    {
        std::lock_guard<std::mutex> guard(run.heap.lock);
        const auto found = run.heap.all.find(address);
        if (found != run.heap.all.end() && !found->second.freed_at) bytes = found->second.bytes;
    }
    const unsigned site = find_site(run, place, 4, STORE);
    for (uint64_t at = 0; at < bytes; at += 4)
        check_global(w, run.heap.operand, address + at, static_cast<unsigned>(std::min<uint64_t>(bytes - at, 4)), WRITES | IS_PART, site);
}

// Keeps what a thread loads and stores for the origins of an operand. What a copy reads arrives without the thread.
[[gnu::noinline]] void note_access(Worker& w, uintptr_t address, unsigned bytes, unsigned how) {
    const uintptr_t offset = address - w.shared_base;
    const bool is_shared = offset < w.shared_span;
    if (how & WRITES && is_shared) note_store(w, offset, bytes, !(how & (IS_COPY | IS_ATOMIC | UNCOUNTED)));
    else if (!(how & (WRITES | IS_COPY | UNCOUNTED))) note_load(w, address, bytes, !is_shared);
}

ALWAYS_INLINE void on_access(uintptr_t address, unsigned bytes, unsigned how, unsigned kind, const void* place, unsigned alignment) {
    Worker* const current = worker;
    if (!current || !current->current) return;
    Worker& w = *current;
    Run& run = *w.run;
    const bool writes = how & WRITES;
    const uintptr_t offset = address - w.shared_base;
    const bool shared = offset < w.shared_span;
    const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    if (frame < w.current->floor) [[unlikely]] note_depth(w, frame, place);
    if (!shared && in_stacks(w, address)) {
        const uintptr_t at = address - reinterpret_cast<uintptr_t>(stack_of(w, w.current->thread));
        if (at >= STACK_BYTES) report_and_abort(w, OUTSIDE_LOCAL, place, writes, address, bytes);
        if (address & (alignment - 1)) report_and_abort(w, MISALIGNED, place, writes, address, alignment);
        if (!w.current->in_flight.empty()) [[unlikely]] on_register(w, address, bytes, writes, place);
        return;
    }
    if (++w.current->steps >= w.current->limit) look_at_steps(w, place, how, address, bytes);
    if (is_stopped(w)) stop_thread(w, place, writes, address, bytes);
    if (writes) w.idle_barriers = w.idle_exchanges = 0;
    if (shared) {
        Slot& slot = w.slots[offset >> SLOT_BITS];
        if ((offset & 0xffff) + bytes > slot.bytes)
            report_and_abort(w, OUTSIDE_SHARED, place, writes, address, bytes);
        if (address & (alignment - 1)) report_and_abort(w, MISALIGNED, place, writes, address, alignment);
        if (alignment > slot.alignment) report_luck(w, slot, place, writes, address, alignment);
        const unsigned site = find_site(run, place, bytes, kind);
        if (run.launch.checks) {
            synchronize(w, address, how);
            check_shared(w, offset, bytes, how, site);
            if (keeps_origins(w)) [[unlikely]] note_access(w, address, bytes, how);
        }
        if (run.launch.counts && !(how & UNCOUNTED)) record(w, address, site, SHARED);
        return;
    }
    const Operand* operand = nullptr;
    const Reach found = reach(run, address, bytes, writes, &operand);
    if (found != Reach::INSIDE && w.cluster != &w.own_cluster && on_remote_access(w, address, bytes, how, kind, place, alignment)) return;
    if (found != Reach::INSIDE && in_heap(run, address)) {
        operand = check_heap(w, address, bytes, how, place);
    } else if (found != Reach::INSIDE) {
        if (found == Reach::OUTSIDE && !writes && is_constant(run, address)) return;
        const FindingKind outside = is_beside_shared(w, address, bytes) ? OUTSIDE_SHARED : OUTSIDE_GLOBAL;
        report_and_abort(w, found == Reach::OUTSIDE ? outside : WRITES_OPERAND, place, writes, address, bytes);
    }
    if (address & (alignment - 1)) report_and_abort(w, MISALIGNED, place, writes, address, alignment);
    const unsigned site = find_site(run, place, bytes, kind);
    if (operand->unwritten && run.launch.checks && reads(how)) check_unwritten(w, *operand, address, bytes, place);
    if (operand->pending && run.launch.checks && !(how & PREFETCHES)) [[unlikely]] check_pending(w, address, bytes, writes, place);
    if (!w.cluster->copies.empty() && !(how & UNCOUNTED)) [[unlikely]] check_bulk_stores(w, address, bytes, writes, place);
    if (run.launch.checks && operand->writes) {
        synchronize(w, address, how);
        check_global(w, *operand, address, bytes, how, site);
    }
    if (keeps_origins(w)) [[unlikely]] note_access(w, address, bytes, how);
    if (run.launch.counts && !(how & UNCOUNTED)) record(w, address, site, GLOBAL);
}

// The same once, for what kernels do less often than plain accesses: each copy takes the compiler 40 ms.
[[gnu::noinline]] void on_other_access(uintptr_t address, unsigned bytes, unsigned how, unsigned kind, const void* place, unsigned alignment) {
    if (how & (IS_ATOMIC | IS_VOLATILE) && worker && worker->current && !in_stacks(*worker, address)) may_preempt(*worker);
    on_access(address, bytes, how, kind, place, alignment);
}

// ---- a thread's own variables ----

// Whether all bytes are those of -ftrivial-auto-var-init=pattern, which no usual number has.
bool is_unset(uintptr_t address, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i)
        if (reinterpret_cast<const uint8_t*>(address)[i] != 0xfe) return false;
    return bytes > 1;
}

void on_guarded(uintptr_t address, unsigned bytes, bool writes, const void* place) {
    Worker* const current = worker;
    if (!current || !current->current) return;
    Worker& w = *current;
    if (!in_stacks(w, address)) {   // so that it does no harm, and that who waits for others lets them run
        on_other_access(address, bytes, writes ? WRITES : READS, writes ? STORE : LOAD, place, 1);
        return;
    }
    if (is_stopped(w)) abort_launch(w);
    const auto pc = reinterpret_cast<uint64_t>(place);
    bool inside = address - reinterpret_cast<uintptr_t>(stack_of(w, w.current->thread)) < STACK_BYTES;
    for (uintptr_t at = address / 8 * 8; at < address + bytes && inside; at += 8) {
        const int8_t mark = *shadow_of(at);
        const uintptr_t end = std::min(address + bytes, at + 8) - at;
        inside = mark == 0 || (mark > 0 && end <= static_cast<uintptr_t>(mark));
    }
    if (!inside) {
        report(w, OUTSIDE_VARIABLE, pc, writes, address, bytes);
        abort_launch(w);
    }
    if (!writes && is_unset(address, bytes)) report(w, UNSET_ELEMENT, pc, false, address, bytes);
}

#pragma GCC visibility push(default)
extern "C" {

// ---- callbacks of -fsanitize=thread ----

#define CALLBACK(name, check, bytes, how, kind, alignment) \
    void name(void* at) { check(reinterpret_cast<uintptr_t>(at), bytes, how, kind, CALLER, alignment); }
#define ACCESS(bytes)                                                                                      \
    CALLBACK(__tsan_read##bytes, on_access, bytes, READS, LOAD, bytes)                                     \
    CALLBACK(__tsan_write##bytes, on_access, bytes, WRITES, STORE, bytes)                                  \
    CALLBACK(__tsan_volatile_read##bytes, on_other_access, bytes, IS_VOLATILE, LOAD, bytes)                \
    CALLBACK(__tsan_volatile_write##bytes, on_other_access, bytes, WRITES | IS_VOLATILE, STORE, bytes)     \
    CALLBACK(__tsan_unaligned_read##bytes, on_other_access, bytes, READS, LOAD, 1)                         \
    CALLBACK(__tsan_unaligned_write##bytes, on_other_access, bytes, WRITES, STORE, 1)
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

static void on_range(void* at, uint64_t bytes, bool writes, const void* place) {
    auto address = reinterpret_cast<uintptr_t>(at);
    while (bytes > 0) {   // in accesses as a GPU would make them
        unsigned size = 16;
        while (size > bytes || address % size) size /= 2;
        on_other_access(address, size, writes ? WRITES | IS_PART : READS, writes ? STORE : LOAD, place, 1);
        address += size;
        bytes -= size;
    }
}

void __tsan_read_range(void* at, uint64_t bytes) { on_range(at, bytes, false, CALLER); }
void __tsan_write_range(void* at, uint64_t bytes) { on_range(at, bytes, true, CALLER); }
void* __tsan_memcpy(void* to, const void* from, uint64_t bytes) {
    on_range(const_cast<void*>(from), bytes, false, CALLER);
    on_range(to, bytes, true, CALLER);
    return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, uint64_t bytes) {
    on_range(const_cast<void*>(from), bytes, false, CALLER);
    on_range(to, bytes, true, CALLER);
    return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, uint64_t bytes) {
    on_range(to, bytes, true, CALLER);
    return std::memset(to, value, bytes);
}

// The pointer to a class's table of virtual functions, which a constructor writes.
void __tsan_vptr_update(void** at, void*) { on_other_access(reinterpret_cast<uintptr_t>(at), 8, WRITES, STORE, CALLER, 8); }

// ---- callbacks of -fsanitize=kernel-address ----

#define GUARDED(bytes)                                                                                           \
    void __asan_load##bytes(void* at) { on_guarded(reinterpret_cast<uintptr_t>(at), bytes, false, CALLER); }     \
    void __asan_store##bytes(void* at) { on_guarded(reinterpret_cast<uintptr_t>(at), bytes, true, CALLER); }
GUARDED(1)
GUARDED(2)
GUARDED(4)
GUARDED(8)
GUARDED(16)
#undef GUARDED
void __asan_loadN(void* at, size_t bytes) {
    on_guarded(reinterpret_cast<uintptr_t>(at), static_cast<unsigned>(bytes), false, CALLER);
}
void __asan_storeN(void* at, size_t bytes) {
    on_guarded(reinterpret_cast<uintptr_t>(at), static_cast<unsigned>(bytes), true, CALLER);
}
void __asan_handle_no_return() {}
void __asan_poison_stack_memory(uintptr_t at, size_t bytes) {
    std::memset(shadow_of(at), -8, bytes / 8);
    if (bytes % 8) *shadow_of(at + bytes / 8 * 8) = -8;
}
void __asan_unpoison_stack_memory(uintptr_t at, size_t bytes) {
    std::memset(shadow_of(at), 0, bytes / 8);
    if (bytes % 8) *shadow_of(at + bytes / 8 * 8) = static_cast<int8_t>(bytes % 8);
}
void __asan_alloca_poison(uintptr_t, size_t) {}
void __asan_allocas_unpoison(uintptr_t, uintptr_t) {}

// ---- callbacks of -fsanitize=bounds, =integer-divide-by-zero, =shift-exponent and =float-cast-overflow ----

struct Type {
    uint16_t kind, info;   // of an integer: twice the logarithm of its bits, and 1 if it has a sign; of others: bits
    char name[1];          // such as 'float [16][17]'
};

struct Subscript {
    const char* file;
    uint32_t line, column;
    const Type* array;
    const Type* index;
};

struct Shift {
    const char* file;
    uint32_t line, column;
    const Type* shifted;
    const Type* by;
};

struct Conversion {
    const char* file;
    uint32_t line, column;
    const Type* from;
    const Type* to;
};

[[noreturn]] void __ubsan_handle_out_of_bounds_abort(const Subscript* subscript, uint64_t index) {
    const char* extent = std::strchr(subscript->array->name, '[');
    const auto elements = static_cast<unsigned>(extent ? std::strtoul(extent + 1, nullptr, 10) : 0);
    if (!worker || !worker->current) std::abort();
    report(*worker, OUTSIDE_ARRAY, reinterpret_cast<uint64_t>(CALLER), false, index, elements);
    abort_launch(*worker);
}

[[noreturn]] void __ubsan_handle_divrem_overflow_abort(const void*, uint64_t, uint64_t) {
    if (!worker || !worker->current) std::abort();
    report(*worker, DIVISION, reinterpret_cast<uint64_t>(CALLER), false, 0, 0);
    abort_launch(*worker);
}

[[noreturn]] void __ubsan_handle_shift_out_of_bounds_abort(const Shift* shift, uint64_t, uint64_t by) {
    if (!worker || !worker->current) std::abort();
    const unsigned bits = 1u << (shift->by->info >> 1);
    if (shift->by->info & 1 && bits < 64) by = static_cast<uint64_t>(static_cast<int64_t>(by << (64 - bits)) >> (64 - bits));
    report(*worker, SHIFT, reinterpret_cast<uint64_t>(CALLER), false, by, shift->shifted->info);
    abort_launch(*worker);
}

// Of a conversion that is not written: casts saturate (casts.h).
[[noreturn]] void __ubsan_handle_float_cast_overflow_abort(const Conversion* conversion, uint64_t bits) {
    if (!worker || !worker->current) std::abort();
    double value = 0;
    if (conversion->from->info == 32) {
        float narrow;
        std::memcpy(&narrow, &bits, sizeof narrow);
        value = narrow;
    } else {
        std::memcpy(&value, &bits, sizeof value);
    }
    std::memcpy(&bits, &value, sizeof bits);
    report(*worker, CONVERSION, reinterpret_cast<uint64_t>(CALLER), false, bits, conversion->to->info);
    abort_launch(*worker);
}

// ---- other symbols of instrumented code ----

void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
void __tsan_vptr_read(void**) {}

}   // extern "C"
#pragma GCC visibility pop
