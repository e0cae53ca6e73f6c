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

// Barriers of the block, and of the lanes of a mask in a warp.
void tiledmm_sync_threads(unsigned instance);   // each in the text has its own number
unsigned tiledmm_sync_threads_count(unsigned instance, bool predicate);
void tiledmm_sync_grid(unsigned instance);   // of all blocks, in a cooperative launch
bool tiledmm_is_cooperative() __attribute__((const));
void tiledmm_sync_whole_warp();
void tiledmm_sync_warp(unsigned mask);
void tiledmm_named_barrier(unsigned id, unsigned threads, unsigned waits);   // bar.sync, or bar.arrive where it does not wait
void tiledmm_wait_for_launch();   // griddepcontrol.wait
void tiledmm_fence(unsigned scope);   // 0: the block, 1: the GPU, 2: the system
unsigned tiledmm_active_mask();

// Exchange of one value per lane: publishes it and waits for the lanes of the mask; then the values of all can be read.
// All lanes must exchange for the same kind of operation.
void tiledmm_exchange(unsigned mask, unsigned long long value, unsigned kind);
unsigned long long tiledmm_exchanged(unsigned lane);
unsigned long long tiledmm_shuffled(unsigned lane, unsigned mask, unsigned strict);   // with a finding where the mask has not the lane
void tiledmm_bad_shuffle_width(int width);
void tiledmm_not_returned();   // at the end of a function that returns no value

// cp.async: copies `source_bytes` and zeros up to `bytes`; groups of copies; waits until `pending` groups are left.
void tiledmm_copy_async(void* shared, const void* global, unsigned bytes, unsigned source_bytes);
void tiledmm_commit_copies();
void tiledmm_wait_for_copies(unsigned pending);
void tiledmm_wait_for_all_copies();

// Atomics: the check of one, and the operation, of 1, 2, 4, 8 or 16 bytes, which puts what it found into `expected`.
void tiledmm_atomic_access(void* at, unsigned bytes);
void tiledmm_compare_access(void* at, unsigned bytes);   // of one that compares
void tiledmm_monotone_access(void* at, unsigned bytes);  // of one that changes nothing if it is repeated
void tiledmm_block_scope(int begins);   // of atomics for threads of one block only
int tiledmm_compare_and_swap(void* at, void* expected, const void* desired, unsigned bytes, int is_last);   // is_last: not tried again

// malloc and new, free and delete; `place` is where they are called, or null for the caller.
void* tiledmm_allocate(unsigned long bytes, unsigned long alignment, const void* place);
void tiledmm_free(void* at, const void* place);

int tiledmm_printf(const char* format, ...);   // printed after the launch
void tiledmm_check_printf(const char* format, const char* kinds);   // kinds: of each argument, a letter of PrintedKind
[[noreturn]] void tiledmm_assert_failed(const char* expression);
[[noreturn]] void tiledmm_exit();
[[noreturn]] void tiledmm_broken_rule(unsigned rule);   // of a library or of the language: see RULES in check/finding_kinds.py
void tiledmm_beyond_range(unsigned function, double x);   // of a fast function: see RANGES in check/finding_kinds.py
long long tiledmm_clock();

// PTX's carry flag, which a thread keeps from one asm statement to the next.
bool tiledmm_carry(bool is_volatile);
void tiledmm_set_carry(bool carry, bool is_volatile);

unsigned tiledmm_shared_offset(const void* shared);
unsigned tiledmm_space(const void* address);   // 0: shared, 1: global, 2: local, 3: constant memory
void* tiledmm_shared_address(unsigned offset);
void tiledmm_count_flops(unsigned operations);
[[noreturn]] void tiledmm_trap();
}

namespace tiledmm_detail {

// What lanes exchange values for: the kind of tiledmm_exchange.
enum Exchange : unsigned {
    SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR,
    BALLOT, ANY, ALL, MATCH_ANY, MATCH_ALL,
    REDUCE_ADD, REDUCE_MIN, REDUCE_MAX, REDUCE_AND, REDUCE_OR, REDUCE_XOR,
};

}   // namespace tiledmm_detail
