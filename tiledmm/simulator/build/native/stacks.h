// The switch between stacks, and what a new one begins with. In machine code: included once.
// Depends on: fibers.h, state.h
#pragma once

#include "fibers.h"
#include "state.h"

#if defined(__x86_64__)
__asm__(
    ".text\n.p2align 4\n.globl tiledmm_switch\ntiledmm_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
    ".globl tiledmm_resume\ntiledmm_resume:\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n");

void* new_stack(uint8_t* top, void (*entry)()) {
    auto** slot = reinterpret_cast<void**>(top) - 2;   // as after a call: a multiple of 16, less 8
    slot[0] = reinterpret_cast<void*>(entry);
    slot[1] = nullptr;
    for (int i = 1; i <= 6; ++i) slot[-i] = nullptr;
    return slot - 6;
}
#elif defined(__aarch64__)
__asm__(
    ".text\n.p2align 4\n.globl tiledmm_switch\ntiledmm_switch:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, x26, [sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    ".globl tiledmm_resume\ntiledmm_resume:\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n  ret\n");

void* new_stack(uint8_t* top, void (*entry)()) {
    auto** slot = reinterpret_cast<void**>(top) - 20;
    for (int i = 0; i < 20; ++i) slot[i] = nullptr;
    slot[11] = reinterpret_cast<void*>(entry);   // x30: return address of the switch
    return slot;
}
#else
#error "the simulator switches stacks on x86-64 and arm64 only"
#endif

void fiber_main() {
    Worker& w = *worker;
    w.run->launch.run_thread(w.run->launch.arguments);
    w.current->barrier = nullptr;
    leave(w, State::DONE);
}

inline void* map_pages(size_t bytes) {
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? nullptr : pages;
}

// Memory for the stacks of the threads of a block, of which the first have a guard page.
struct Stacks {
    uint8_t* memory = nullptr;
    unsigned guarded = 0;
    uint8_t* pages = nullptr;   // where the mapping begins
    size_t bytes = 0;           // of the mapping
};

// What earlier launches used: to map it, and to protect each guard page, takes as long as a small launch does.
inline std::mutex spare_lock;
inline std::vector<Stacks> spare_stacks;
constexpr size_t MOST_SPARE = 8;

// Those of a cooperative launch, which has many, are aligned, and not kept.
inline Stacks take_stacks(bool cooperative) {
    std::lock_guard<std::mutex> guard(spare_lock);
    if (cooperative || spare_stacks.empty()) {
        const size_t more = cooperative ? STACKS_ALIGNMENT : 0, bytes = MAX_THREADS * STACK_BYTES + more;
        const auto pages = static_cast<uint8_t*>(map_pages(bytes));
        if (!pages) return {};
        return {pages + (more ? -reinterpret_cast<uintptr_t>(pages) % more : 0), 0, pages, bytes};
    }
    const Stacks last = spare_stacks.back();
    spare_stacks.pop_back();
    return last;
}

// Its pages are zeros the next time, so that what a thread finds there does not depend on earlier launches.
inline void keep_stacks(Stacks stacks, unsigned threads) {
    std::lock_guard<std::mutex> guard(spare_lock);
    const bool is_usual = stacks.bytes == MAX_THREADS * STACK_BYTES;
    if (is_usual && spare_stacks.size() < MOST_SPARE && !madvise(stacks.memory, threads * STACK_BYTES, MADV_DONTNEED))
        spare_stacks.push_back(stacks);
    else
        munmap(stacks.pages, stacks.bytes);
}
