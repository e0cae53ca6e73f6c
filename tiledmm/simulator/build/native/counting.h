// Requests of warps, combined from the accesses of lanes; their wavefronts and sectors.
// Depends on: state.h
#pragma once

#include "state.h"

// Wavefronts of a part of a warp: the largest number of different words in one bank.
unsigned most_words_in_a_bank(const uintptr_t* address, unsigned mask, unsigned bytes) {
    unsigned most = 0;
    uint8_t filled[BANKS] = {};
    uintptr_t bank[BANKS][WARP];
    for (unsigned lane = 0; lane < WARP; ++lane) {
        if (!(mask >> lane & 1)) continue;
        for (uintptr_t word = address[lane] / 4; word <= (address[lane] + bytes - 1) / 4; ++word) {
            const unsigned b = word % BANKS;
            bool known = false;
            for (unsigned i = 0; i < filled[b] && !known; ++i) known = bank[b][i] == word;
            if (known || filled[b] == WARP) continue;
            bank[b][filled[b]++] = word;
            if (filled[b] > most) most = filled[b];
        }
    }
    return most;
}

// Whether each active lane and the lane whose number differs by `step` access the same address, among `lanes` from `first`.
bool agree(const Request& r, unsigned first, unsigned lanes, unsigned step) {
    for (unsigned lane = first; lane < first + lanes; ++lane) {
        const unsigned other = lane ^ step;
        if (r.mask >> lane & 1 && r.mask >> other & 1 && r.address[lane] != r.address[other]) return false;
    }
    return true;
}

// The rules of tiledmm/hardware/banks.py, which says where they were measured.
void shared_wavefronts(const Request& r, unsigned bytes, bool load, unsigned* wavefronts, unsigned* ideal) {
    const unsigned lanes = bytes <= 4 ? WARP : 128 / bytes;   // served at once
    const auto part = [&](unsigned first, unsigned count) {
        return r.mask & (count == WARP ? ~0u : ((1u << count) - 1) << first);
    };
    unsigned sum = 0;
    for (unsigned first = 0; first < WARP; first += 2 * lanes) {
        if (lanes == WARP) {
            sum = most_words_in_a_bank(r.address, r.mask, bytes);
            break;
        }
        const bool joins = load && (agree(r, first, 2 * lanes, 1) || agree(r, first, 2 * lanes, 2));
        const unsigned joined = joins ? most_words_in_a_bank(r.address, part(first, 2 * lanes), bytes) : 2;
        sum += joined <= 1 ? joined
                           : most_words_in_a_bank(r.address, part(first, lanes), bytes) +
                                 most_words_in_a_bank(r.address, part(first + lanes, lanes), bytes);
    }
    const unsigned least = (__builtin_popcount(r.mask) * bytes + 127) / 128;
    *wavefronts = sum;
    *ideal = least < sum ? least : sum;
}

void global_sectors(const Request& r, unsigned bytes, unsigned* sectors, unsigned* ideal) {
    uintptr_t seen[WARP * 2];
    unsigned count = 0;
    for (unsigned lane = 0; lane < WARP; ++lane) {
        if (!(r.mask >> lane & 1)) continue;
        for (uintptr_t sector = r.address[lane] / 32; sector <= (r.address[lane] + bytes - 1) / 32; ++sector) {
            bool known = false;
            for (unsigned i = count; i-- > 0 && !known;) known = seen[i] == sector;
            if (!known) seen[count++] = sector;
        }
    }
    *sectors = count;
    *ideal = (__builtin_popcount(r.mask) * bytes + 31) / 32;
}

void add(Counts& counts, const Request& r, unsigned bytes, unsigned units, unsigned ideal) {
    const unsigned lanes = __builtin_popcount(r.mask);
    ++counts.requests;
    counts.lanes += lanes;
    counts.bytes += static_cast<uint64_t>(lanes) * bytes;
    counts.units += units;
    counts.ideal += ideal;
}

void measure(const Request& r, unsigned bytes, unsigned kind, unsigned* units, unsigned* ideal) {
    if (r.space == SHARED)
        shared_wavefronts(r, bytes, kind == LOAD, units, ideal);
    else
        global_sectors(r, bytes, units, ideal);
}

void count_source(Worker& w, const Request& r) {
    const unsigned bytes = w.run->sites[r.site].bytes;
    Pattern& last = w.counters.patterns[r.site * 2 + r.space];
    int32_t relative[WARP];
    const unsigned first = __builtin_ctz(r.mask);
    uint32_t difference = r.mask ^ last.mask;
    difference |= (r.address[first] & 31) ^ last.phase;   // sectors have 32 bytes; a shift rotates banks alike
    for (unsigned lane = 0; lane < WARP; ++lane) {
        relative[lane] = r.mask >> lane & 1 ? static_cast<int32_t>(r.address[lane] - r.address[first]) : 0;
        difference |= static_cast<uint32_t>(relative[lane] ^ last.relative[lane]);
    }
    if (difference) {
        last.mask = r.mask;
        last.phase = r.address[first] & 31;
        std::memcpy(last.relative, relative, sizeof relative);
        measure(r, bytes, w.run->sites[r.site].kind, &last.units, &last.ideal);
    }
    add(w.counters.counts[r.site].source[r.space], r, bytes, last.units, last.ideal);
}

uint64_t vector_key(const Run& run, const Request& r, uintptr_t next) {
    const Site& site = run.sites[r.site];
    return (next * 4 + site.kind) * 2 + r.space + static_cast<uint64_t>(site.group) * 0x9e3779b97f4a7c15ull;
}

void Joiner::close(Worker& w, const Request& r, unsigned bytes) {
    unsigned units, ideal;
    measure(r, bytes, w.run->sites[r.site].kind, &units, &ideal);
    add(w.counters.counts[r.site].sass[r.space], r, bytes, units, ideal);
}

// Ends a vector that stayed short: counts it as accesses of powers of two.
void Joiner::shut(Worker& w, const Vector& v) {
    Request rest = v.request;
    for (unsigned left = v.bytes; left > 0;) {
        unsigned bytes = 16;
        while (bytes > left) bytes /= 2;
        close(w, rest, bytes);
        for (auto& address : rest.address) address += bytes;
        left -= bytes;
    }
}

void Joiner::take(Worker& w, const Request& r) {
    const Run& run = *w.run;
    const unsigned bytes = run.sites[r.site].bytes, width = run.sites[r.site].width[r.space];
    const unsigned first = __builtin_ctz(r.mask);
    bool aligned = width > bytes;
    for (unsigned lane = 0; lane < WARP && width > bytes; ++lane)
        if (r.mask >> lane & 1 && r.address[lane] % width) aligned = false;
    if (width > bytes && !aligned) {
        const auto found = open_.find(vector_key(run, r, r.address[first]));
        if (found != open_.end()) {
            Vector v = found->second;
            bool joins = v.request.mask == r.mask && v.bytes + bytes <= width;
            for (unsigned lane = 0; lane < WARP && joins; ++lane)
                joins = !(r.mask >> lane & 1) || r.address[lane] == v.request.address[lane] + v.bytes;
            if (joins) {
                open_.erase(found);
                v.bytes += bytes;
                if (v.bytes == width)
                    close(w, v.request, width);
                else
                    open_.insert_or_assign(vector_key(run, r, r.address[first] + bytes), v);
                return;
            }
        }
    }
    if (!aligned) {
        close(w, r, bytes);
        return;
    }
    const uint64_t key = vector_key(run, r, r.address[first] + bytes);
    const auto waits = open_.find(key);
    if (waits != open_.end()) shut(w, waits->second);
    open_.insert_or_assign(key, Vector{r, bytes});
}

void Joiner::finish(Worker& w) {
    for (const auto& each : open_) shut(w, each.second);
    open_.clear();
}

void count_request(Worker& w, const Request& r) {
    if (!w.run->sites[r.site].bytes) return;   // arithmetic, in a trace
    count_source(w, r);
    if (w.run->launch.describe) w.joiner.take(w, r);
}

ALWAYS_INLINE const uint64_t* lane_log(const Worker& w, unsigned lane) {
    return w.counters.log.data() + static_cast<size_t>(lane) * (LOG_ENTRIES + 72);
}

constexpr uint64_t PLACE = 0x7fff;   // of an entry of a log: site and space

// How often all lanes come to a place, if they do, and do in one order: what they access between two of these belongs together.
[[gnu::cold]] void find_common_places(const Worker& w, std::unordered_map<unsigned, unsigned>& common) {
    std::unordered_map<unsigned, unsigned> times;   // by place and lane
    std::vector<unsigned> places, first, order;
    for (unsigned lane = 0; lane < WARP; ++lane)
        for (unsigned i = 0; i < w.logged[lane]; ++i) {
            const unsigned place = lane_log(w, lane)[i] & PLACE;
            if (!common[place]++) places.push_back(place);
            ++times[place * WARP + lane];
        }
    for (const unsigned place : places) {
        unsigned most = 0;
        bool same = true;
        for (unsigned lane = 0; lane < WARP; ++lane) most = std::max(most, times[place * WARP + lane]);
        for (unsigned lane = 0; lane < WARP; ++lane) same = same && (times[place * WARP + lane] == most || !w.logged[lane]);
        common[place] = same ? most : 0;
    }
    for (unsigned lane = 0; lane < WARP; ++lane) {
        order.clear();
        for (unsigned i = 0; i < w.logged[lane]; ++i)
            if (const unsigned place = lane_log(w, lane)[i] & PLACE; common[place]) order.push_back(place);
        if (first.empty()) first = order;
        unsigned at = 0;
        while (at < order.size() && order[at] == first[at]) ++at;
        if (at == order.size()) continue;
        // Of two places in another order, the less frequent one is where lanes skip an iteration.
        common[common[order[at]] < common[first[at]] ? order[at] : first[at]] = 0;
        first.clear();
        lane = ~0u;   // from the first lane on
    }
}

// Divergent lanes: between two places that all come to, the n-th access of a lane at a place belongs to the n-th of the others.
void count_divergent(Worker& w) {
    std::unordered_map<unsigned, unsigned> common;
    find_common_places(w, common);
    std::unordered_map<uint64_t, size_t> index;   // by how many of these places were passed, occurrence and place
    std::vector<Request> requests;
    std::unordered_map<unsigned, unsigned> occurrences;
    for (unsigned lane = 0; lane < WARP; ++lane) {
        occurrences.clear();
        unsigned passed = 0;
        const uint64_t* log = lane_log(w, lane);
        for (unsigned i = 0; i < w.logged[lane]; ++i) {
            const unsigned site = log[i] >> 1 & 0x3fff, space = log[i] & 1;
            if (common[log[i] & PLACE]) {
                ++passed;
                occurrences.clear();
            }
            const unsigned nth = occurrences[log[i] & PLACE]++;
            const auto entry = index.emplace(static_cast<uint64_t>(passed) << 40 | static_cast<uint64_t>(nth) << 16 | (log[i] & PLACE), requests.size());
            if (entry.second) requests.push_back({site, space, 0, {}});
            Request& r = requests[entry.first->second];
            r.mask |= 1u << lane;
            r.address[lane] = log[i] >> 16;
        }
    }
    for (const Request& r : requests) count_request(w, r);
}

void flush(Worker& w, unsigned warp) {
    Run& run = *w.run;
    const unsigned first = warp * WARP;
    const unsigned lanes = run.threads - first < WARP ? run.threads - first : WARP;
    if (is_traced(w, ACCESSES)) {
        for (unsigned lane = 0; lane < lanes; ++lane)
            for (unsigned i = 0; i < w.logged[lane]; ++i) {
                const uint64_t entry = lane_log(w, lane)[i];
                const Site& site = run.sites[entry >> 1 & 0x3fff];
                const uintptr_t address = entry >> 16;
                const bool shared = site.bytes && (entry & 1) == SHARED;
                const Worker* owner = &w;
                for (const Worker* each : w.cluster->members)
                    if (shared && address - each->shared_base < each->shared_span) owner = each;
                w.trace.push_back({site.pc, shared ? address - owner->shared_base : address, w.barriers - w.barriers_before, 0, first + lane,
                                   site.bytes, site.bytes ? site.kind : ARITHMETIC, static_cast<uint32_t>(entry & 1), owner->rank, w.rank});
            }
    }
    bool alike = true;
    for (unsigned lane = 1; lane < lanes && alike; ++lane) alike = w.logged[lane] == w.logged[0];
    const uint64_t* logs[WARP];
    for (unsigned lane = 0; lane < lanes; ++lane) logs[lane] = lane_log(w, lane);
    for (unsigned i = 0; i < w.logged[0] && alike; ++i) {
        uint64_t different = 0;
        for (unsigned lane = 1; lane < lanes; ++lane) different |= logs[lane][i] ^ logs[0][i];
        alike = (different & PLACE) == 0;
    }
    if (alike) {
        Request r;
        r.mask = lanes == WARP ? ~0u : (1u << lanes) - 1;
        for (unsigned lane = lanes; lane < WARP; ++lane) r.address[lane] = 0;
        for (unsigned i = 0; i < w.logged[0]; ++i) {
            for (unsigned lane = 0; lane < lanes; ++lane) r.address[lane] = logs[lane][i] >> 16;
            r.site = logs[0][i] >> 1 & 0x3fff;
            r.space = logs[0][i] & 1;
            count_request(w, r);
        }
    } else {
        count_divergent(w);
    }
    w.joiner.finish(w);
    std::memset(w.logged, 0, sizeof w.logged);
}
