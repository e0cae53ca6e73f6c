// Functions of the runtime that kernels call. No standard headers: a kernel compiles in a tenth of a second.
// Depends on: nothing
#pragma once

struct uint3;

extern "C" {
// Indices and sizes. Constant for a thread, so the compiler may call them once.
uint3 tiledmm_thread_index() __attribute__((const));
uint3 tiledmm_block_index() __attribute__((const));
uint3 tiledmm_block_size() __attribute__((const));
uint3 tiledmm_grid_size() __attribute__((const));
unsigned tiledmm_lane() __attribute__((const));

// Barriers of the block (two on one line are two: each has a number), with the number of threads whose predicate holds; named
// barriers of some of its threads, which wait or only arrive; barriers of the lanes of a mask in a warp.
void tiledmm_sync_threads(unsigned instance);
unsigned tiledmm_sync_threads_count(unsigned instance, bool predicate);
void tiledmm_named_barrier(unsigned id, unsigned threads, unsigned waits);
void tiledmm_sync_warp(unsigned mask);

// Orders the accesses of a thread, as seen by its block (0), the device (1) or the system (2).
void tiledmm_fence(unsigned scope);

// Exchange of one value per lane: publishes it and waits for the lanes of the mask, which must call the same function
// (`kind`, of tiledmm_detail::Exchange); then the values of all can be read.
void tiledmm_exchange(unsigned mask, unsigned long long value, unsigned kind);
unsigned long long tiledmm_exchanged(unsigned lane);
// As tiledmm_exchanged. A lane that is not in the mask is a finding if `strict`, and its value is not that lane's.
unsigned long long tiledmm_shuffled(unsigned lane, unsigned mask, unsigned strict);
void tiledmm_bad_shuffle_width(int width);
unsigned tiledmm_active_mask();

// cp.async: copies `source_bytes` and zeros up to `bytes`; groups of copies; waits until `pending` groups are left.
void tiledmm_copy_async(void* shared, const void* global, unsigned bytes, unsigned source_bytes);
void tiledmm_commit_copies();
void tiledmm_wait_for_copies(unsigned pending);

// Atomics: the first checks and records an access, the second compares and swaps 1, 2, 4, 8 or 16 bytes, and puts what it found
// in `expected` where that differs.
void tiledmm_atomic_access(void* at, unsigned bytes);
int tiledmm_compare_and_swap(void* at, void* expected, const void* desired, unsigned bytes);

int tiledmm_printf(const char* format, ...);
[[noreturn]] void tiledmm_assert_failed(const char* expression);
long long tiledmm_clock();
unsigned tiledmm_shared_offset(const void* shared);
void tiledmm_count_flops(unsigned operations);
[[noreturn]] void tiledmm_trap();
}

namespace tiledmm_detail {

// What lanes exchange values for.
enum Exchange : unsigned {
    SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR,
    BALLOT, ANY, ALL, MATCH_ANY, MATCH_ALL,
    REDUCE_ADD, REDUCE_MIN, REDUCE_MAX, REDUCE_AND, REDUCE_OR, REDUCE_XOR,
    MATRICES,   // the lanes' parts of a matrix
};

}   // namespace tiledmm_detail
