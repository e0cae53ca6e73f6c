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
void tiledmm_sync_threads();
unsigned tiledmm_sync_threads_count(bool predicate);
void tiledmm_sync_warp(unsigned mask);

// Exchange of one value per lane: publishes it and waits for the lanes of the mask; then the values of all can be read.
void tiledmm_exchange(unsigned mask, unsigned long long value);
unsigned long long tiledmm_exchanged(unsigned lane);

// cp.async: copies `source_bytes` and zeros up to `bytes`; groups of copies; waits until `pending` groups are left.
void tiledmm_copy_async(void* shared, const void* global, unsigned bytes, unsigned source_bytes);
void tiledmm_commit_copies();
void tiledmm_wait_for_copies(unsigned pending);

// Atomics on global memory.
int tiledmm_atomic_min(int* at, int value);

unsigned tiledmm_shared_offset(const void* shared);
void* tiledmm_shared_address(unsigned offset);
void tiledmm_count_flops(unsigned operations);
[[noreturn]] void tiledmm_trap();
}
