// A runtime that prints the calls of asynchronous.h and does nothing else, for test_inline_ptx_hopper.py.
#include <cstdint>
#include <cstdio>

struct uint3 {
    unsigned x, y, z;
};
#include "asynchronous.h"

namespace {

unsigned long long hex(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
const char* const REDUCTIONS[] = {"", "add", "min", "max", "inc", "dec", "and", "or", "xor"};
const char* const TYPES[] = {"u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32",
                             "f64", "bf16", "tf32", "b32", "b64", "s8", "e4m3", "e5m2"};
const char* const WAYS[] = {"to_shared", "to_cluster", "to_global", "between_shared", "to_l2"};

unsigned char memory[256];

}   // namespace

extern "C" {
void tiledmm_barrier_init(unsigned at, unsigned arrivals) { printf("init %x %u\n", at, arrivals); }
void tiledmm_barrier_invalidate(unsigned at) { printf("inval %x\n", at); }
unsigned long long tiledmm_barrier_arrive(unsigned at, unsigned arrivals, unsigned bytes, unsigned flags) {
    printf("arrive %x %u %u %u\n", at, arrivals, bytes, flags);
    return 7;
}
void tiledmm_barrier_expect(unsigned at, unsigned bytes, unsigned flags) { printf("expect %x %u %u\n", at, bytes, flags); }
void tiledmm_barrier_complete(unsigned at, unsigned bytes, unsigned flags) { printf("complete %x %u %u\n", at, bytes, flags); }
bool tiledmm_barrier_wait(unsigned at, unsigned long long phase, unsigned flags) {
    printf("wait %x %llx %u\n", at, phase, flags);
    return true;
}
unsigned tiledmm_barrier_pending(unsigned long long token) {
    printf("pending %llx\n", token);
    return 5;
}
void tiledmm_barrier_arrive_after_copies(unsigned at, unsigned flags) { printf("after_copies %x %u\n", at, flags); }
void tiledmm_barrier_init_fence() { printf("init_fence\n"); }
void tiledmm_proxy_fence(unsigned spaces) { printf("proxy_fence %u\n", spaces); }

void tiledmm_copy_bulk(const tiledmm_detail::BulkCopy* copy) {
    printf("bulk %s %s %s", WAYS[copy->way], REDUCTIONS[copy->reduction], copy->reduction ? TYPES[copy->type] : "");
    printf(" %x %x %llx %u", copy->shared, copy->source, hex(copy->global), copy->bytes);
    printf(" %x %x %u\n", copy->barrier, copy->blocks, copy->has_barrier);
}
void tiledmm_copy_tensor(const tiledmm_detail::TensorCopy* copy) {
    printf("tensor %s %s %llx", WAYS[copy->way], REDUCTIONS[copy->reduction], hex(copy->map));
    for (unsigned i = 0; i < copy->dimensions; ++i) printf(" %d", copy->at[i]);
    printf(" | %x %x %x\n", copy->shared, copy->barrier, copy->blocks);
}
void tiledmm_commit_bulk() { printf("commit_bulk\n"); }
void tiledmm_wait_for_bulk(unsigned pending, unsigned reads_only) { printf("wait_for_bulk %u %u\n", pending, reads_only); }
void tiledmm_store_async(unsigned to, unsigned barrier, const void* value, unsigned bytes, tiledmm_detail::Reduction reduction,
                         tiledmm_detail::ElementType type) {
    printf("store_async %x %x %s %s", to, barrier, REDUCTIONS[reduction], TYPES[type]);
    for (unsigned i = 0; i < bytes / 4; ++i) printf(" %x", static_cast<const unsigned*>(value)[i]);
    printf("\n");
}

unsigned tiledmm_map_shared(unsigned at, unsigned rank) { return at | (rank + 1) << 24; }
void* tiledmm_map_generic(const void* at, unsigned rank) { return reinterpret_cast<void*>(hex(at) + 0x1000000ull * rank); }
unsigned tiledmm_rank_of(unsigned at) { return (at >> 24) - 1; }
unsigned tiledmm_rank_of_generic(const void* at) { return static_cast<unsigned>(hex(at) >> 24); }
void* tiledmm_cluster_address(unsigned at) {
    printf("cluster_address %x\n", at);
    return memory + (at & 127);
}
unsigned tiledmm_window_address(const void* generic) { return static_cast<unsigned>(hex(generic)) - 0x70000000u; }
void tiledmm_arrive_at_cluster(unsigned relaxed, unsigned aligned) { printf("cluster_arrive %u %u\n", relaxed, aligned); }
void tiledmm_wait_at_cluster(unsigned relaxed, unsigned aligned) { printf("cluster_wait %u %u\n", relaxed, aligned); }
uint3 tiledmm_cluster_size() { return {2, 3, 4}; }
uint3 tiledmm_cluster_block() { return {1, 2, 3}; }
uint3 tiledmm_cluster_index() { return {5, 6, 7}; }
unsigned tiledmm_cluster_rank() { return 9; }
bool tiledmm_has_cluster() { return true; }

void tiledmm_wgmma(const tiledmm_detail::Wgmma* product) {
    const auto& p = *product;
    printf("wgmma %s %s %s n%u k%u %u |", TYPES[p.a_type], TYPES[p.b_type], TYPES[p.sum_type], p.n, p.k, p.registers);
    for (unsigned i = 0; i < p.registers; ++i)   // distances of the places; the sums themselves
        *static_cast<unsigned*>(p.sums[i]) += 1 + i;
    printf(" %lld |", p.registers > 1 ? static_cast<long long>(hex(p.sums[1]) - hex(p.sums[0])) : 0);
    if (p.a_in_registers)
        for (unsigned i = 0; i < 4; ++i) printf(" %x%s", p.a[i], p.a_places[i] ? "@" : "");
    else
        printf(" %llx", p.a_descriptor);
    printf(" | %llx | %u %d %d", p.b_descriptor, p.scale_d, p.scale_a, p.scale_b);
    printf(" %u %u %u\n", p.transposes_a, p.transposes_b, p.saturates);
}
void tiledmm_wgmma_fence() { printf("wgmma_fence\n"); }
void tiledmm_wgmma_commit() { printf("wgmma_commit\n"); }
void tiledmm_wgmma_wait(unsigned pending) { printf("wgmma_wait %u\n", pending); }
void tiledmm_set_registers(unsigned count, unsigned increases) { printf("set_registers %u %u\n", count, increases); }

// ---- the rest of the runtime that the cases call ----
void* tiledmm_shared_address(unsigned offset) { return memory + (offset & 127); }
unsigned tiledmm_shared_offset(const void* shared) { return static_cast<unsigned>(hex(shared)); }
void tiledmm_fence(unsigned scope) { printf("fence %u\n", scope); }
unsigned tiledmm_lane() { return 3; }
void tiledmm_shown(unsigned long long value) { printf("= %llx\n", value); }
void tiledmm_exchange(unsigned mask, unsigned long long value, unsigned kind) {
    printf("exchange %x %llu %u\n", mask, value, kind);
}
unsigned long long tiledmm_exchanged(unsigned) { return 1; }

void tiledmm_cases(const unsigned* numbers, unsigned long long map, unsigned long long global, void (*next)());
}

int main() {
    const unsigned numbers[8] = {0x400, 0x3000800, 48, 3, 4, 5, 6, 7};
    tiledmm_cases(numbers, 0x5000, 0x70000900, [] { printf("--\n"); });
    return 0;
}
