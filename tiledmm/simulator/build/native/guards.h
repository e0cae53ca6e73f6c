// A thread's own variables: bytes around them that no access may touch, and elements of arrays that were not set.
//
// For kernels that are compiled with -fsanitize=kernel-address, whose functions mark the bytes around their variables in
// shadow memory, a byte for 8 bytes of a stack: 0 if all may be accessed, n > 0 if the first n may, else none.
//
// Depends on: state.h
#pragma once

#include <sys/mman.h>

#include "state.h"

constexpr uintptr_t SHADOW_OFFSET = 1ull << 44;   // as in kernel_flags.py

ALWAYS_INLINE int8_t* shadow_of(uintptr_t address) { return reinterpret_cast<int8_t*>((address >> 3) + SHADOW_OFFSET); }

// Shadow memory for a worker's stacks. False if there is no memory.
class Shadow {
public:
    bool map(const uint8_t* stacks, size_t bytes) {
        constexpr uintptr_t PAGE = 65536;
        const auto first = reinterpret_cast<uintptr_t>(shadow_of(reinterpret_cast<uintptr_t>(stacks)));
        const uintptr_t begin = first / PAGE * PAGE;
        bytes_ = (first + bytes / 8 + PAGE - 1) / PAGE * PAGE - begin;
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
