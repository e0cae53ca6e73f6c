// wgmma: a warp multiplies when its lanes have come, and they get the sums when they wait; and setmaxnreg.
//
// Depends on: asynchronous_memory.h, clusters.h, descriptors.h, operands.h, origins.h, wgmma_sums.h
#pragma once

#include "asynchronous_memory.h"
#include "clusters.h"
#include "descriptors.h"
#include "operands.h"
#include "origins.h"
#include "wgmma_sums.h"

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
        report_with(w, REGISTER_IN_FLIGHT, as_pc(place), writes, 0, each.is_sum ? 1 : 0,
                    {each.place, w.block_number, fiber.thread, each.is_sum}, {each.is_sum, each.group < products.committed});
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
        const Fence &its = lanes[lane].proxy[SHARED].fence, &latest = w.current->proxy[SHARED].fence;
        if (its.done && (!latest.done || its.clock > latest.clock)) w.current = &lanes[lane];
        if (each.a_descriptor == first.a_descriptor && each.b_descriptor == first.b_descriptor && each.scale_d == first.scale_d)
            continue;
        w.current = &lanes[lane];
        report(w, BAD_WGMMA, pc, false, 0, LANES_DIFFER);
        w.current = &lanes[0];
    }
    Fiber& asks = *w.current;
    const auto others = asks.others;
    for (unsigned lane = 0; lane < WARP; ++lane) learn(w, asks, lanes[lane].others);

    const unsigned site = find_site(*w.run, place, CHUNK_BYTES, WGMMA_ISSUED);
    const unsigned group = products.committed, number = agent_for(w, WGMMA_OF_WARP | warp);
    w.usual[number] = agent_for(w, WGMMA_OF_WARPGROUP | warp / 4);
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
    std::vector<WgmmaOperand> operands;   // in shared memory
    if (first.a_in_registers) {
        uint32_t registers[32][4];
        for (unsigned lane = 0; lane < WARP; ++lane)
            std::memcpy(registers[lane], static_cast<const Wgmma*>(lanes[lane].wgmma)->a, sizeof registers[lane]);
        pack_rows(registers, a.data());
    } else {
        const Descriptor d = decode(first.a_descriptor);
        gather(d, first.transposes_a, warp % 4 * 16, 16, first.k, bytes_of(first.a_type), read, a.data());
        operands.push_back({d, first.transposes_a != 0, warp % 4 * 16, 16, 64, first.k, bytes_of(first.a_type)});
        total += wavefronts(16, first.k, bytes_of(first.a_type));
    }
    const Descriptor d = decode(first.b_descriptor);
    gather(d, first.transposes_b, 0, first.n, first.k, bytes_of(first.b_type), read, b.data());
    operands.push_back({d, first.transposes_b != 0, 0, first.n, first.n, first.k, bytes_of(first.b_type)});
    check_operands(w, operands, place);
    if (warp % 4 == 0) total += wavefronts(first.n, first.k, bytes_of(first.b_type));   // B is read once for all four warps
    else read_bytes -= first.n * first.k * bytes_of(first.b_type);
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
        const size_t all = WARP * registers;
        products.sums.push_back({places, std::vector<uint32_t>(all), std::vector<uint32_t*>(all), registers});
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
    std::vector<std::vector<unsigned>> chunks;
    for (size_t i = 0; i < operands.size(); ++i) {
        chunks.push_back(chunks_along_k(operands[i]));
        if (checks(w) && sums->chunks.size() == operands.size())
            check_advance(w, operands[i], sums->chunks[i], sums->place, place);
    }
    sums->chunks = std::move(chunks);
    sums->place = pc;
    const auto offset_in = [&](unsigned long long descriptor) {
        return offset_of(w, static_cast<unsigned>(descriptor & 0x3fff) << 4);
    };
    const uintptr_t b_offset = offset_in(first.b_descriptor),
                    a_offset = first.a_in_registers ? b_offset : offset_in(first.a_descriptor);
    trace(w, WGMMA_ISSUED, place, a_offset, first.n, b_offset);
    multiply(first, a.data(), b.data(), sums->values.data());
    for (unsigned lane = 0; lane < WARP; ++lane) {
        const Wgmma& each = *static_cast<const Wgmma*>(lanes[lane].wgmma);
        for (unsigned i = 0; i < registers; ++i)
            put_in_flight(lanes[lane], reinterpret_cast<uintptr_t>(each.sums[i]), true, group, pc);
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

// Whether a wgmma uses registers that none before has used: these were set by other instructions, and need a fence after that.
static bool uses_new_registers(const Fiber& fiber, const Wgmma& product) {
    const auto is_new = [&](const void* place) {
        const auto address = reinterpret_cast<uintptr_t>(place);
        return std::none_of(fiber.in_flight.begin(), fiber.in_flight.end(),
                            [&](const InFlight& each) { return address - each.begin < each.end - each.begin; });
    };
    if (is_new(product.sums[0]) && product.scale_d) return true;
    return product.a_in_registers && product.a_places[0] && is_new(product.a_places[0]);
}

// A register of A must not be one of a sum that is in flight.
static void check_a_register(Worker& w, uintptr_t address, const void* place) {
    for (const InFlight& each : w.current->in_flight) {
        if (!each.is_sum || each.is_complete || address - each.begin >= each.end - each.begin) continue;
        const bool committed = each.group < w.products[w.current->thread / WARP].committed;
        report_with(w, REGISTER_IN_FLIGHT, as_pc(place), false, 0, 1, {each.place, w.block_number, w.current->thread, true},
                    {1, committed});
        return;
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
    if (!fiber.has_wgmma_fence || (!fiber.fenced_since_wait && uses_new_registers(fiber, *product)))
        report(w, BAD_WGMMA, as_pc(CALLER), false, 0, NO_FENCE);
    if (product->a_in_registers)
        for (const void* each : product->a_places) check_a_register(w, reinterpret_cast<uintptr_t>(each), CALLER);
    fiber.wgmma = product;
    if (keeps_origins(w)) settle_store(w, fiber.thread);
    sync_warp(~0u, CALLER, WGMMA, multiply_in_warp);
}

void tiledmm_wgmma_fence() {
    Worker& w = *worker;
    use(w);
    need_warpgroup(w, CALLER);
    w.current->has_wgmma_fence = w.current->fenced_since_wait = true;
    sync_warp(~0u, CALLER, WGMMA_FENCE);
}

static void commit_in_warp(Worker& w, unsigned warp) {
    Products& products = w.products[warp];
    trace(w, WGMMA_COMMITTED, w.fibers[warp * WARP].barrier, 0, 0, products.committed);
    ++products.committed;
    products.of_groups.push_back({std::exchange(products.open, 0u), products.issued_at});
    wake(w);
}

// All four warps of a warpgroup execute the same wgmma.
static void compare_warps(Worker& w, unsigned warp, unsigned group) {
    const Products::Group mine = w.products[warp].of_groups[group];
    for (unsigned other = warp / 4 * 4; other < warp / 4 * 4 + 4; ++other) {
        const Products::Group its = w.products[other].of_groups[group];
        if (its.count >= mine.count) continue;
        report_of(w, w.current->thread, BAD_WGMMA, mine.last, false, 0, NOT_BY_ALL_WARPS,
                  {its.last, w.block_number, other * WARP, false}, {});
        return;
    }
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
    if (lane == 0) trace(w, WAITS_FOR_WGMMA, CALLER, 0, 0, done);
    sleep_until_over(w);
    if (lane == 0) trace(w, WGMMA_WAITED, CALLER, 0, 0, done);
    for (size_t i = 0; i < products.sums.size(); ++i) {
        Products::Sums& sums = products.sums[i];
        if (sums.group >= done || sums.delivered >> lane & 1) continue;
        for (unsigned j = 0; j < sums.registers; ++j)
            *sums.to[lane * sums.registers + j] = sums.values[lane * sums.registers + j];
        sums.delivered |= 1u << lane;
    }
    products.sums.erase(std::remove_if(products.sums.begin(), products.sums.end(),
                                       [](const Products::Sums& each) { return each.delivered == ~0u; }),
                        products.sums.end());
    for (InFlight& each : fiber.in_flight)
        if (each.group < done) each.is_complete = true;
    const unsigned number = agent_for(w, WGMMA_OF_WARP | warp);
    if (products.settled < done) {
        settle_reads(w, number, done);
        for (unsigned group = products.settled; group < done; ++group) compare_warps(w, warp, group);
        products.settled = done;
        agent(w, number).clock = std::max(agent(w, number).clock, done);
    }
    learn_agent(w, fiber, number, done);
    learn_agent(w, fiber, agent_for(w, WGMMA_OF_WARPGROUP | warp / 4), done);
    if (done) fiber.fenced_since_wait = false;
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
    if (!increases && count > w.registers[warp])
        report_and_abort(w, BAD_REGISTERS, CALLER, false, w.registers[warp], MORE_BY_DEC);
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
