// Whether the descriptor of an operand of wgmma leads to its elements in order, and to each once.
//
// What an operand is, threads say by what they write: the elements of a tile come from an array in global memory, at steps
// along rows and along k. Where a descriptor does not fit the tile, these steps differ. A correct kernel may gather rows from
// anywhere.
//
// Depends on: asynchronous_memory.h, descriptors.h, origins.h
#pragma once

#include "asynchronous_memory.h"
#include "descriptors.h"
#include "origins.h"

// Chunks of 16 bytes of an operand, in rows of contiguous elements: along k, or along mn if it is MN-major.
struct WgmmaOperand {
    Descriptor descriptor;
    bool mn_major;
    unsigned first, count;   // of mn, that this warp reads
    unsigned all;            // of mn, that the four warps read
    unsigned k, element_bytes;

    unsigned elements() const { return CHUNK_BYTES / element_bytes; }
    unsigned rows() const { return mn_major ? k : count; }
    unsigned chunks() const { return (mn_major ? count : k) / elements(); }
    unsigned mn_of(unsigned row, unsigned chunk) const { return first + (mn_major ? chunk * elements() : row); }
    unsigned k_of(unsigned row, unsigned chunk) const { return mn_major ? row : chunk * elements(); }
    unsigned offset(unsigned row, unsigned chunk) const {
        return offset_before_swizzle(descriptor, mn_major, mn_of(row, chunk), k_of(row, chunk), element_bytes);
    }
    unsigned address(unsigned row, unsigned chunk) const { return swizzled_address(descriptor, offset(row, chunk)); }
};

// Calls visit(row, chunk) until it returns true; returns whether it did.
template <class Visit>
bool for_chunks_of(const WgmmaOperand& o, Visit visit) {
    for (unsigned row = 0; row < o.rows(); ++row)
        for (unsigned chunk = 0; chunk < o.chunks(); ++chunk)
            if (visit(row, chunk)) return true;
    return false;
}

// ---- each chunk once ----

// Reports offsets that lead to one chunk from two places. A convolution's rows may overlap, all at one distance, and an offset
// of 0 repeats rows. details: where the chunk is found again, and where it was before: mn and k of each.
static bool check_overlap(Worker& w, const WgmmaOperand& o, const void* place) {
    std::vector<bool> seen(WINDOW / CHUNK_BYTES);
    unsigned again[2] = {};
    const bool overlaps = for_chunks_of(o, [&](unsigned row, unsigned chunk) {
        const unsigned at = o.address(row, chunk) / CHUNK_BYTES % seen.size();
        if (seen[at]) return again[0] = row, again[1] = chunk, true;
        seen[at] = true;
        return false;
    });
    if (!overlaps) return false;
    const unsigned begin = o.offset(0, 0), along_rows = o.offset(1, 0) - begin,
                   along_chunks = o.chunks() > 1 ? o.offset(0, 1) - begin : 0;
    if (!for_chunks_of(o, [&](unsigned row, unsigned chunk) {
            return o.offset(row, chunk) != begin + row * along_rows + chunk * along_chunks;
        }))
        return false;
    if (for_chunks_of(
            o, [&](unsigned row, unsigned chunk) { return (row == 0) != (chunk == 0) && o.offset(row, chunk) == begin; }))
        return false;
    const unsigned address = o.address(again[0], again[1]);
    return for_chunks_of(o, [&](unsigned row, unsigned chunk) {
        if (o.address(row, chunk) != address) return false;
        report_with(w, BAD_WGMMA, as_pc(place), false, w.shared_base + offset_of(w, address), OVERLAPPING, {},
                    {o.mn_of(again[0], again[1]), o.k_of(again[0], again[1]), o.mn_of(row, chunk), o.k_of(row, chunk)});
        return true;
    });
}

// Reports swizzled rows that begin within a row of the pattern, and end in the next one: elements of that one are then where
// those of the first were to be. details: bytes from the begin of the pattern's row; those of such a row.
static bool check_rows(Worker& w, const WgmmaOperand& o, const void* place) {
    const unsigned swizzle = o.descriptor.swizzle;
    if (!swizzle) return false;
    const unsigned begin = o.descriptor.address % swizzle, bytes = (o.mn_major ? o.all : o.k) * o.element_bytes;
    if (begin + std::min(bytes, swizzle) <= swizzle) return false;
    report_with(w, BAD_WGMMA, as_pc(place), false, w.shared_base + offset_of(w, o.descriptor.address), WITHIN_A_ROW, {},
                {begin, swizzle});
    return true;
}

// The chunks along k of the first row of an operand, as the next wgmma with the same sums compares them with its own.
static std::vector<unsigned> chunks_along_k(const WgmmaOperand& o) {
    std::vector<unsigned> all;
    for (unsigned i = 0; i < (o.mn_major ? o.rows() : o.chunks()); ++i)
        all.push_back(o.mn_major ? o.address(i, 0) : o.address(0, i));
    return all;
}

// Reports steps along k from one wgmma to the next that are shorter than the k of a wgmma: it reads some chunks of a row again,
// and not all. details: the k of the first one here, and the k that it had before.
static void check_advance(Worker& w, const WgmmaOperand& o, const std::vector<unsigned>& before, uint64_t place_before,
                          const void* place) {
    const std::vector<unsigned> now = chunks_along_k(o);
    const unsigned step = o.mn_major ? 1 : o.elements();
    unsigned same = 0, here = 0, there = 0;
    for (unsigned i = 0; i < now.size(); ++i) {
        const auto found = std::find(before.begin(), before.end(), now[i]);
        if (found != before.end() && same++ == 0) here = i, there = static_cast<unsigned>(found - before.begin());
    }
    if (same == 0 || same == now.size()) return;
    report_with(w, BAD_WGMMA, as_pc(place), false, w.shared_base + offset_of(w, now[here]), SHORT_ADVANCE,
                {place_before, w.block_number, w.current->thread, false}, {here * step, there * step});
}

// ---- elements in order ----

// Where TMA took the 16 bytes at an address from, if it wrote them last.
static const Source* source_at(const Worker& w, unsigned address) {
    const uintptr_t offset = offset_of(w, address);
    if (w.sources.empty() || offset >= w.shared_span) return nullptr;
    const Source& source = w.sources[address / CHUNK_BYTES % w.sources.size()];
    const Cell written = w.writes[offset >> w.granule_shift];
    return source.serial && is_agent(w, written) && site_of(written) == source.site ? &source : nullptr;
}

// Whether a thread wrote the 16 bytes at an address last; where the bytes come from then stands in Worker::origins.
static bool is_by_thread(const Worker& w, unsigned address) {
    const uintptr_t offset = offset_of(w, address);
    if (!keeps_origins(w) || offset >= w.shared_span) return false;
    const Cell written = w.writes[offset >> w.granule_shift];
    return is_of_block(w, written) && !is_agent(w, written) && !(written & IN_FLIGHT);
}

// details: mn and k of an element that is elsewhere; the address in global memory of what should be there; whether a thread
// wrote it.
static void report_order(Worker& w, const WgmmaOperand& o, unsigned row, unsigned chunk, uintptr_t found, uintptr_t expected,
                         const void* place) {
    const unsigned address = o.address(row, chunk);
    const Source* const source = source_at(w, address);
    const Cell written = w.writes[offset_of(w, address) >> w.granule_shift];
    report_with(w, BAD_WGMMA, as_pc(place), false, found, OTHER_ORDER,
                {pc_of(*w.run, site_of(written)), w.block_number, source ? source->thread : thread_of(written), true},
                {o.mn_of(row, chunk), o.k_of(row, chunk), expected, source == nullptr});
}

// Where TMA has written an operand, each step along its rows, and each along its columns, must be one through the array, or one
// through the box: one try with addresses in global memory, and one with offsets in the box. Of each copy, three chunks say how
// far the steps are.
static bool check_boxes(Worker& w, const WgmmaOperand& o, const void* place) {
    if (w.sources.empty()) return false;
    struct Steps {
        const Source* begin;
        unsigned row, chunk;
        long long along_rows, along_chunks;
        bool has_row, has_chunk;
    };
    struct Wrong {
        const Source* source = nullptr;
        unsigned row = 0, chunk = 0;
        long long by = 0;   // from where it should be
    } wrong[2];
    const auto value = [](const Source& source, bool in_box) {
        return static_cast<long long>(in_box ? source.offset : source.global);
    };
    for (const bool in_box : {false, true}) {
        std::map<unsigned, Steps> copies;
        for_chunks_of(o, [&](unsigned row, unsigned chunk) {
            const Source* const source = source_at(w, o.address(row, chunk));
            if (!source || (!in_box && !source->global)) return false;
            const auto [found, is_new] = copies.try_emplace(source->serial, Steps{source, row, chunk, 0, 0, false, false});
            Steps& steps = found->second;
            if (is_new) return false;
            const long long distance = value(*source, in_box) - value(*steps.begin, in_box);
            const long long rows = static_cast<long long>(row) - steps.row,
                            chunks = static_cast<long long>(chunk) - steps.chunk;
            if (rows == 0 && !steps.has_chunk) steps.along_chunks = distance / chunks, steps.has_chunk = true;
            if (chunks == 0 && !steps.has_row) steps.along_rows = distance / rows, steps.has_row = true;
            if ((rows && !steps.has_row) || (chunks && !steps.has_chunk)) return false;
            const long long by = distance - rows * steps.along_rows - chunks * steps.along_chunks;
            if (by == 0 && distance != 0) return false;
            wrong[in_box] = {source, row, chunk, by};
            return true;
        });
    }
    const auto& [source, row, chunk, by] = wrong[false];
    if (!source || !wrong[true].source) return false;
    report_order(w, o, row, chunk, source->global, source->global - static_cast<uintptr_t>(by), place);
    return true;
}

// Where threads have written an operand, by cp.async or by stores of what they loaded. Its rows may be gathered from anywhere,
// and so may its columns, but the distance between two columns must be the same in all rows. If neither rows nor columns are at
// one distance from each other, and the element that belongs to one place is in another, the tile is permuted. Nothing is known
// of an operand if it has elements that come from nowhere, or some twice.
static bool check_origins(Worker& w, const WgmmaOperand& o, const void* place) {
    const unsigned chunks = o.chunks();
    std::vector<uintptr_t> begins;
    std::map<uintptr_t, unsigned> all;   // these, and where each is
    uintptr_t step = 0;   // from an element to the next of a chunk
    const bool is_unknown = for_chunks_of(o, [&](unsigned row, unsigned chunk) {
        const unsigned address = o.address(row, chunk);
        if (!is_by_thread(w, address)) return true;
        const uintptr_t* const origins = &w.origins[address % WINDOW];
        if (begins.empty()) step = origins[o.element_bytes] - origins[0];
        for (unsigned i = 0; i < CHUNK_BYTES; ++i) {
            const unsigned element = i / o.element_bytes;
            if (!origins[i] || origins[i] != origins[0] + element * step + i % o.element_bytes) return true;
        }
        begins.push_back(origins[0]);
        return all.try_emplace(origins[0], address).first->second != address;
    });
    if (is_unknown) return false;
    const auto at = [&](unsigned row, unsigned chunk) { return begins[row * chunks + chunk]; };
    const auto report_at = [&](unsigned row, unsigned chunk, uintptr_t expected) {
        report_order(w, o, row, chunk, at(row, chunk), expected, place);
        return true;
    };
    const bool differs = for_chunks_of(o, [&](unsigned row, unsigned chunk) {
        const uintptr_t expected = at(row, 0) + at(0, chunk) - at(0, 0);
        return at(row, chunk) != expected && report_at(row, chunk, expected);
    });
    if (differs) return true;
    const auto is_elsewhere = [&](uintptr_t expected, uintptr_t found) { return expected != found && all.count(expected); };
    unsigned row = 1, chunk = 1;
    const auto expected_row = [&] { return at(0, 0) + row * (at(1, 0) - at(0, 0)); };
    const auto expected_chunk = [&] { return at(0, 0) + chunk * o.elements() * step; };
    while (row < o.rows() && at(row, 0) == expected_row()) ++row;
    while (chunk < chunks && at(0, chunk) == expected_chunk()) ++chunk;
    if (row == o.rows() || chunk == chunks) return false;
    return is_elsewhere(expected_row(), at(row, 0)) && is_elsewhere(expected_chunk(), at(0, chunk)) &&
           report_at(row, 0, expected_row());
}

// A row of an operand that is swizzled and K-major: whether its chunks come from contiguous memory, and by which xor of their
// numbers they are permuted there. The swizzle of a tile that begins between two patterns permutes all its rows alike.
struct SwizzledRow {
    bool is_known = false;
    unsigned permutation = 0;
    uintptr_t begin = 0;   // in global memory
};

static SwizzledRow first_row(const Worker& w, const WgmmaOperand& o) {
    const Descriptor& d = o.descriptor;
    if (o.mn_major || !d.swizzle) return {};
    const unsigned begin = (d.address + o.offset(0, 0)) / d.swizzle * d.swizzle - d.address, count = d.swizzle / CHUNK_BYTES;
    std::vector<uintptr_t> from;
    for (unsigned chunk = 0; chunk < count; ++chunk) {
        const unsigned address = swizzled_address(d, begin + chunk * CHUNK_BYTES);
        if (const Source* const source = source_at(w, address)) from.push_back(source->global);
        else if (is_by_thread(w, address)) from.push_back(w.origins[address]);
        else return {};
    }
    SwizzledRow row = {true, 0, *std::min_element(from.begin(), from.end())};
    row.permutation = static_cast<unsigned>((from[0] - row.begin) / CHUNK_BYTES);
    for (unsigned chunk = 0; chunk < count; ++chunk)
        row.is_known = row.is_known && row.begin && from[chunk] == row.begin + (chunk ^ row.permutation) * CHUNK_BYTES;
    return row;
}

// Rows of A and B that are permuted differently: k of the one meets another k of the other.
static void check_permutations(Worker& w, const WgmmaOperand& a, const WgmmaOperand& b, const void* place) {
    const SwizzledRow of_a = first_row(w, a), of_b = first_row(w, b);
    if (!of_a.is_known || !of_b.is_known || of_a.permutation == of_b.permutation) return;
    const WgmmaOperand& o = of_b.permutation ? b : a;
    const SwizzledRow& row = of_b.permutation ? of_b : of_a;
    const unsigned chunk = (o.descriptor.address + o.offset(0, 0)) % o.descriptor.swizzle / CHUNK_BYTES;
    report_order(w, o, 0, 0, row.begin + (chunk ^ row.permutation) * CHUNK_BYTES, row.begin + chunk * CHUNK_BYTES, place);
}

static void check_operands(Worker& w, const std::vector<WgmmaOperand>& operands, const void* place) {
    if (!checks(w)) return;
    bool is_wrong = false;
    for (const WgmmaOperand& each : operands)
        is_wrong |= check_rows(w, each, place) || check_overlap(w, each, place) || check_boxes(w, each, place) ||
                    check_origins(w, each, place);
    if (operands.size() == 2 && !is_wrong) check_permutations(w, operands[0], operands[1], place);
}
