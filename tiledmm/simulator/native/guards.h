// A thread's own variables: bytes around them that no access may touch, and elements of arrays that were not set.
//
// For kernels that are compiled with -fsanitize=kernel-address, whose functions mark the bytes around their variables in
// shadow memory, a byte for 8 bytes of a stack: 0 if all may be accessed, n > 0 if the first n may, else none.
//
// Depends on: checks.h, state.h
#pragma once

#include <sys/mman.h>

#include "checks.h"
#include "state.h"

constexpr uintptr_t SHADOW_OFFSET = 1ull << 44;   // as in toolchain.py

ALWAYS_INLINE int8_t* shadow_of(uintptr_t address) { return reinterpret_cast<int8_t*>((address >> 3) + SHADOW_OFFSET); }

// Shadow memory for a worker's stacks. False if there is no memory.
class Shadow {
public:
    bool map(const uint8_t* stacks, size_t bytes) {
        constexpr uintptr_t PAGE = 65536;
        const auto begin = reinterpret_cast<uintptr_t>(shadow_of(reinterpret_cast<uintptr_t>(stacks))) / PAGE * PAGE;
        bytes_ = bytes / 8 + 2 * PAGE;
        pages_ = mmap(reinterpret_cast<void*>(begin), bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANON | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        return pages_ != MAP_FAILED;
    }
    ~Shadow() {
        if (pages_ != MAP_FAILED) munmap(pages_, bytes_);
    }

private:
    void* pages_ = MAP_FAILED;
    size_t bytes_ = 0;
};

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
    if (w.run->stop.load(std::memory_order_relaxed)) abort_launch(w);
    if (!in_stacks(w, address)) return;
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
}   // extern "C"
#pragma GCC visibility pop
