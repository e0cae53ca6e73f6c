// Bulk copies, TMA, st.async and red.async: they read memory when they are issued, and write it when they arrive.
//
// Depends on: asynchronous_memory.h, clusters.h, mbarriers.h, remote_accesses.h, schedule.h, tensor_maps.h, wgmma_sums.h
#pragma once

#include "asynchronous_memory.h"
#include "clusters.h"
#include "mbarriers.h"
#include "remote_accesses.h"
#include "schedule.h"
#include "tensor_maps.h"
#include "wgmma_sums.h"

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

unsigned counted_bytes(const Copy& copy) {
    return copy.arrives ? 0 : copy.bytes ? copy.bytes : static_cast<unsigned>(copy.data.size());
}

// The rows of a box in shared memory, between which there may be gaps: calls visit(offset, bytes).
template <class Visit>
void for_rows(unsigned bytes, unsigned row_bytes, unsigned pitch, Visit visit) {
    if (row_bytes == pitch) return visit(0u, bytes);
    for (unsigned at = 0; at < bytes; at += pitch) visit(at, row_bytes);
}

// The current thread issues a copy, whose destination in shared memory has been checked.
void issue(Worker& w, Copy&& copy) {
    Cluster& c = *w.cluster;
    const auto* const place = reinterpret_cast<const void*>(copy.place);
    if (copy.targets.empty()) trace(w, STORE_ISSUED, place, copy.offset, static_cast<unsigned>(copy.data.size()), copy.group);
    for (Copy::Target& target : copy.targets) {
        Worker& owner = *c.members[target.rank];
        trace(owner, ISSUED, place, copy.offset, counted_bytes(copy), copy.barrier);
        const auto found = owner.mbarriers.find(copy.barrier);
        if (found == owner.mbarriers.end()) continue;
        target.phase = found->second.phase;
        if (!copy.data.empty()) {
            target.clock = agent(owner, found->second.agent).clock++;
            if (copy.pieces.empty())
                for_rows(static_cast<unsigned>(copy.data.size()), copy.row_bytes, copy.pitch, [&](unsigned at, unsigned bytes) {
                    mark_written(owner, copy.offset + at, bytes, found->second.agent, target.clock, copy.site,
                                 copy.reduction ? IN_FLIGHT | STRONG : IN_FLIGHT);
                });
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
    copy.serial = ++w.cluster->serial;
    return copy;
}

void land(Worker& w, size_t number) {
    Cluster& c = *w.cluster;
    Copy copy = std::move(c.copies[number]);
    c.copies.erase(c.copies.begin() + static_cast<std::ptrdiff_t>(number));
    ++c.progress;
    Worker& from = *c.members[copy.rank];
    if (copy.targets.empty())
        trace(from, from, copy.thread, STORE_LANDED, copy.place, copy.offset, counted_bytes(copy), copy.group);
    for (const Copy::Piece& piece : copy.pieces)
        write_bytes(piece.to, copy.data.data() + piece.from, piece.bytes, copy.reduction, copy.type);
    for (const Copy::Target& target : copy.targets) {
        Worker& owner = *c.members[target.rank];
        Worker& issuer = *c.members[copy.rank];
        const unsigned bytes = static_cast<unsigned>(copy.data.size()), counted = copy.bytes ? copy.bytes : bytes;
        if (owner.is_done) {
            report_of(issuer, copy.thread, ENDED_BLOCK, copy.place, true, issuer.shared_base + copy.offset, bytes,
                      {0, owner.block_number, 0}, {1});
            continue;
        }
        const auto found = owner.mbarriers.find(copy.barrier);
        if (copy.pieces.empty() && copy.row_bytes == copy.pitch)
            write_bytes(reinterpret_cast<uint8_t*>(owner.shared_base + copy.offset), copy.data.data(), bytes, copy.reduction,
                        copy.type);
        else if (copy.pieces.empty())   // rows with gaps, which stay as they are
            for (const Copy::From& each : copy.sources)
                std::memcpy(reinterpret_cast<uint8_t*>(owner.shared_base + copy.offset + each.to), copy.data.data() + each.to,
                            CHUNK_BYTES);
        trace(owner, issuer, copy.thread, LANDED, copy.place, copy.offset, counted_bytes(copy), copy.barrier);
        if (found == owner.mbarriers.end()) continue;   // it was invalidated
        Barrier& barrier = found->second;
        if (copy.pieces.empty() && !copy.sources.empty() && checks(owner)) {
            owner.sources.resize(WINDOW / CHUNK_BYTES);
            const unsigned box = window_address(owner, copy.offset);
            for (const Copy::From& each : copy.sources)
                owner.sources[(box + each.to) / CHUNK_BYTES % owner.sources.size()] = {copy.serial, each.offset, each.global,
                                                                                       copy.site, copy.thread};
        }
        if (copy.pieces.empty()) {
            for_rows(bytes, copy.row_bytes, copy.pitch, [&](unsigned at, unsigned part) {
                barrier.landed.push_back(
                    {copy.offset + at, copy.offset + at + part, target.clock, copy.thread, copy.rank, copy.site});
            });
        } else {
            for (const Copy::Piece& piece : copy.pieces) {
                const auto offset = static_cast<unsigned>(reinterpret_cast<uintptr_t>(piece.to) - owner.shared_base);
                mark_written(owner, offset, piece.bytes, barrier.agent, target.clock, copy.site, IN_FLIGHT);
                barrier.landed.push_back({offset, offset + piece.bytes, target.clock, copy.thread, copy.rank, copy.site});
            }
        }
        if (copy.known) {
            for (Knowledge* each : {&barrier.known, &barrier.in_block, &barrier.in_cluster}) {
                reserve(owner, *each);
                join(*each, *copy.known);
            }
        }
        if (copy.arrives) {
            trace(owner, issuer, copy.thread, ARRIVED, copy.place, copy.barrier, 1, barrier.phase);
            if (barrier.pending) --barrier.pending;
            reserve(owner, barrier.known);
        } else {
            barrier.bytes -= counted;
            if (barrier.bytes < 0 && barrier.pending == 0)
                report_of(issuer, copy.thread, UNEXPECTED_BYTES, copy.place, true, issuer.shared_base + copy.barrier, bytes,
                          {barrier.expected_at, owner.block_number, barrier.thread, true},
                          {2, barrier.phase, static_cast<uint64_t>(-barrier.bytes)});
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
            report_with(w, UNFINISHED_COPY, as_pc(place), writes, address, bytes,
                        other_at(issuer, copy.thread, copy.place, true), {2});
            return;
        }
    }
}

// ---- bulk copies ----

// Checks and counts what a copy reads or writes of global memory, in chunks.
void access_global(Worker& w, const uint8_t* global, unsigned bytes, unsigned how, const void* place, unsigned& told) {
    if (!sees_accesses(w)) return;
    for (unsigned at = 0; at < bytes; at += CHUNK_BYTES) {
        const auto address = reinterpret_cast<uintptr_t>(global + at);
        const unsigned size = std::min(bytes - at, CHUNK_BYTES);
        on_other_access(address, size, how | UNCOUNTED | IS_PART, how & WRITES ? STORE_ISSUED : ISSUED, place,
                        size == CHUNK_BYTES ? size : 1);
        if (!checks(w) || how & WRITES || told >> 8 & 1) continue;
        // What threads of this block wrote must be behind a fence.
        for (unsigned i = 0; i < w.run->launch.operand_count; ++i) {
            const Operand& o = w.run->launch.operands[i];
            if (address - o.begin >= o.bytes || !o.writes) continue;
            const uint64_t* const words = o.writes + 2 * ((address - o.begin) / o.granule);
            const Stamp stamp = {__atomic_load_n(words, __ATOMIC_RELAXED), __atomic_load_n(words + 1, __ATOMIC_RELAXED)};
            if (stamp.who <= BEFORE || stamp.block() != w.block_number || w.run->sites[stamp.site()].kind == STORE_ISSUED)
                continue;
            if (is_fenced(w, w, GLOBAL, stamp.thread(), stamp.epoch(), stamp.clock())) continue;
            told |= 1u << 8;
            report(w, NO_PROXY_FENCE, as_pc(place), false, address, size,
                   other_at(w, stamp.thread(), pc_of(*w.run, stamp.site()), true));
            break;
        }
    }
}

// A prefetch to L2 reads nothing that a thread gets, and its address and size are multiples of 16 bytes, which rows need not
// be: chunks that hold at least one byte of an array are in bounds.
void prefetch(Worker& w, const uint8_t* global, unsigned bytes, const void* place, unsigned& told) {
    for (unsigned at = 0; at < bytes; at += CHUNK_BYTES) {
        const auto chunk = reinterpret_cast<uintptr_t>(global + at);
        const auto* const first = w.run->launch.operands;
        const bool within = std::any_of(first, first + w.run->launch.operand_count, [&](const Operand& o) {
            return o.begin < chunk + CHUNK_BYTES && chunk < o.begin + o.bytes;
        });
        if (!within) access_global(w, global + at, CHUNK_BYTES, READS | PREFETCHES, place, told);
    }
}

// Counts a copy as L1 gets it: one that goes to several blocks, in each.
void count(Worker& w, unsigned site, unsigned bytes, uint64_t sectors, unsigned wavefronts, unsigned blocks = 1) {
    if (!w.run->launch.counts) return;
    SiteCounts& counts = w.counters.counts[site];
    for (auto* all : {counts.source, counts.sass}) {
        if (sectors) {
            Counts& global = all[GLOBAL];
            ++global.requests, ++global.lanes;
            global.bytes += static_cast<uint64_t>(blocks) * bytes;
            global.units += blocks * sectors, global.ideal += static_cast<uint64_t>(blocks) * ((bytes + 31) / 32);
        }
        if (wavefronts) {
            Counts& shared = all[SHARED];
            ++shared.requests, ++shared.lanes;
            shared.bytes += static_cast<uint64_t>(blocks) * bytes;
            shared.units += static_cast<uint64_t>(blocks) * wavefronts;
            shared.ideal += static_cast<uint64_t>(blocks) * ((bytes + 127) / 128);
        }
    }
}

uint64_t sectors_of(uintptr_t address, unsigned bytes) { return bytes ? (address + bytes - 1) / 32 - address / 32 + 1 : 0; }

void bad_copy(Worker& w, const void* place, bool writes, uintptr_t address, CopyFault fault) {
    report_and_abort(w, BAD_BULK_COPY, place, writes, address, fault);
}

// The blocks to which a load copies, all of which have the barrier and the destination at the same offsets.
std::vector<Copy::Target> targets_of(Worker& w, unsigned shared, unsigned barrier, unsigned blocks, bool is_multicast,
                                     const void* place) {
    std::vector<Copy::Target> targets;
    const size_t count = w.cluster->members.size();
    if (!is_multicast) {
        Worker& owner = *owner_at(w, shared, place);
        if (owner_at(w, barrier, place) != &owner)
            bad_copy(w, place, true, w.shared_base + offset_of(owner, barrier), BARRIER_ELSEWHERE);
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
void check_destination(Worker& w, Worker& owner, uintptr_t offset, unsigned bytes, const void* place, unsigned& told,
                       unsigned site, bool strong) {
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
    copy.offset = static_cast<unsigned>(offset);
}

void need_alignment(Worker& w, uintptr_t offset, unsigned alignment, const void* place) {
    if (!checks(w)) return;
    Slot& slot = w.slots[offset >> SLOT_BITS];
    if (slot.alignment >= alignment || slot.is_dynamic) return;
    report(w, BY_LUCK, as_pc(place), true, w.shared_base + offset, alignment);
    slot.alignment = alignment;
}

#pragma GCC visibility push(default)
extern "C" {

void tiledmm_copy_bulk(const BulkCopy* what) {
    Worker& w = *worker;
    const void* const place = CALLER;
    use(w);
    may_preempt(w);
    const unsigned site = find_site(*w.run, place, CHUNK_BYTES, what->way == TO_GLOBAL ? STORE_ISSUED : ISSUED);
    auto* const global = static_cast<uint8_t*>(what->global);
    const auto address = reinterpret_cast<uintptr_t>(global);
    unsigned told = 0;
    if (what->bytes % CHUNK_BYTES || !what->bytes) bad_copy(w, place, false, address, SIZE);
    if (what->way != BETWEEN_SHARED && address % CHUNK_BYTES)
        bad_copy(w, place, what->way == TO_GLOBAL, address, GLOBAL_ADDRESS);
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
        count(w, site, what->bytes, sectors_of(address, what->bytes), (what->bytes + 127) / 128,
              static_cast<unsigned>(copy.targets.size()));
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
    if (map.dimensions != what->dimensions)
        bad_copy(w, place, false, at_map, static_cast<CopyFault>(DIMENSIONS | map.dimensions << 8));
    const bool stores = what->way == TO_GLOBAL;
    const MapFault broken = fault(map, what->at, !stores ? MAP_LOAD : what->reduction ? MAP_REDUCE : MAP_STORE);
    if (broken) {
        const CopyFault faults[] = {NO_MAP, COORDINATE, NEGATIVE, REDUCTION};
        bad_copy(w, place, stores, at_map, faults[broken]);
    }
    unsigned told = 0;
    if (what->way == TO_L2) return for_chunks(map, what->at, [&](unsigned, uint8_t* global, unsigned, unsigned inside) {
        if (global) access_global(w, global, inside, READS | PREFETCHES, place, told);
    });
    const unsigned site = find_site(*w.run, place, CHUNK_BYTES, stores ? STORE_ISSUED : ISSUED), bytes = reached_bytes(map);
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
        for_rows(bytes, row_bytes(map), row_pitch(map),
                 [&](unsigned at, unsigned part) { check_source(w, offset + at, part, place, told); });
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
    copy.row_bytes = row_bytes(map);
    copy.pitch = row_pitch(map);
    for (const Copy::Target& target : copy.targets) {
        Worker& owner = *w.cluster->members[target.rank];
        check_barrier(w, owner, what->barrier, place);
        for_rows(bytes, copy.row_bytes, copy.pitch,
                 [&](unsigned at, unsigned part) { check_destination(w, owner, offset + at, part, place, told, site, false); });
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
                if (to % CHUNK_BYTES == 0)
                    copy.sources.push_back({in_box(to), run + at, here ? reinterpret_cast<uint64_t>(global) + at : 0});
            });
        }
    });
    const auto blocks = static_cast<unsigned>(copy.targets.size());
    count(w, site, inside_bytes, sectors, 0, blocks);
    count(w, site, copy.bytes, 0, (copy.bytes + 127) / 128, blocks);
    issue(w, std::move(copy));
}

void tiledmm_commit_bulk() {
    Worker& w = *worker;
    Fiber& fiber = *w.current;
    trace(w, STORES_COMMITTED, CALLER, 0, 0, fiber.bulk_group);
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
    trace(w, WAITS_FOR_STORES, CALLER, 0, reads_only, done);
    auto& copies = w.cluster->copies;
    if (!reads_only)
        for (size_t i = 0; i < copies.size();) {
            const Copy& each = copies[i];
            if (each.targets.empty() && each.rank == w.rank && each.thread == fiber.thread && each.group < done) land(w, i);
            else ++i;
        }
    trace(w, STORES_WAITED, CALLER, 0, reads_only, done);
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
    const unsigned site = find_site(*w.run, place, bytes, ISSUED);
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

// The thread's copies by cp.async so far arrive together, and then it does.
void tiledmm_barrier_arrive_after_copies(unsigned at, unsigned flags) {
    Worker& w = *worker;
    const void* const place = CALLER;
    use(w);
    Fiber& fiber = *w.current;
    const Found found = find_barrier(w, at, place);
    if (!(flags & NO_INCREMENT)) ++found.barrier->pending;
    add_arrival(w, found, 0);
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

}   // extern "C"
#pragma GCC visibility pop
