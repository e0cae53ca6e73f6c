// Signals that a thread of a kernel raises, or that are sent to end it: they end the thread, not the process.
//
// The handler notes what happened and continues in the scheduler, which reports it. It runs on a stack of its own, so that
// a thread whose stack is used up can be ended, too. Signals of other threads go to the handlers that were there before.
//
// Depends on: checks.h, state.h
#pragma once

#include <csignal>
#include <ucontext.h>

#include "checks.h"
#include "state.h"

namespace faults {

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGURG};
constexpr int COUNT = sizeof SIGNALS / sizeof SIGNALS[0];
constexpr int END = SIGURG;   // ignored by default, so that one that comes late does no harm

std::mutex lock;
unsigned users = 0;
struct sigaction before[COUNT];

struct Registers {
    uintptr_t pc, stack, frame;
};

#if defined(__x86_64__)
Registers registers_of(const ucontext_t& context) {
    const auto* g = context.uc_mcontext.gregs;
    return {static_cast<uintptr_t>(g[REG_RIP]), static_cast<uintptr_t>(g[REG_RSP]), static_cast<uintptr_t>(g[REG_RBP])};
}
void resume_at(ucontext_t& context, void (*function)(), void* stack) {
    context.uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(function);
    context.uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(stack);
}
#else
Registers registers_of(const ucontext_t& context) {
    return {context.uc_mcontext.pc, context.uc_mcontext.sp, context.uc_mcontext.regs[29]};
}
void resume_at(ucontext_t& context, void (*function)(), void* stack) {
    context.uc_mcontext.pc = reinterpret_cast<uintptr_t>(function);
    context.uc_mcontext.sp = reinterpret_cast<uintptr_t>(stack);
}
#endif

void pass_on(int signal, siginfo_t* info, void* context) {
    for (int i = 0; i < COUNT; ++i) {
        if (SIGNALS[i] != signal) continue;
        const struct sigaction& old = before[i];
        if (old.sa_flags & SA_SIGINFO) {
            old.sa_sigaction(signal, info, context);
        } else if (old.sa_handler == SIG_DFL) {
            if (signal == END) return;
            ::signal(signal, SIG_DFL);   // the instruction runs again, and ends the process
            if (info->si_code <= 0) raise(signal);
        } else if (old.sa_handler != SIG_IGN) {
            old.sa_handler(signal);
        }
    }
}

void handle(int signal, siginfo_t* info, void* data) {
    auto& context = *static_cast<ucontext_t*>(data);
    Worker* const w = worker;
    if (!w || !w->current || w->fault.signal) {
        pass_on(signal, info, data);
        return;
    }
    const Registers at = registers_of(context);
    if (signal == END && (!w->ends.load() || !in_code(*w->run, at.pc))) return;   // it is sent again
    w->fault.signal = signal;
    w->fault.pc = at.pc;
    w->fault.address = reinterpret_cast<uintptr_t>(info->si_addr);
    w->fault.frame = at.frame;
    w->fault.stack = at.stack;
    resume_at(context, tiledmm_resume, w->scheduler);
}

void install() {
    std::lock_guard<std::mutex> guard(lock);
    if (users++) return;
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < COUNT; ++i) sigaction(SIGNALS[i], &action, &before[i]);
}

void remove() {
    std::lock_guard<std::mutex> guard(lock);
    if (--users) return;
    for (int i = 0; i < COUNT; ++i) sigaction(SIGNALS[i], &before[i], nullptr);
}

// The stack that a worker's signals are handled on.
class SignalStack {
public:
    SignalStack() {
        stack_t mine = {};
        mine.ss_sp = memory_;
        mine.ss_size = sizeof memory_;
        sigaltstack(&mine, &before_);
    }
    ~SignalStack() { sigaltstack(&before_, nullptr); }

private:
    stack_t before_ = {};
    alignas(16) uint8_t memory_[64 * 1024];
};

// What a signal says of the thread that it ended.
void report_fault(Worker& w) {
    const Fault fault = w.fault;
    w.fault = {};
    const auto stack = reinterpret_cast<uintptr_t>(stack_of(w, w.current->thread));
    FindingKind kind = FAULT;
    if (fault.signal == END) {
        kind = static_cast<FindingKind>(w.ends.exchange(0) - 1);
        if (kind == TIMED_OUT && !w.run->timed_out.exchange(false)) return;   // another thread has said so
    } else if (fault.signal == SIGFPE) kind = DIVISION;
    else if (fault.signal == SIGILL || fault.signal == SIGTRAP) kind = TRAPPED;
    else if (fault.pc == fault.address) kind = BAD_CALL;
    else if (fault.address - stack < GUARD_BYTES || fault.stack < stack + GUARD_BYTES) kind = STACK_OVERFLOW;
    uint64_t pc = fault.pc + 1;   // places are return addresses: one behind the instruction
    if (kind == BAD_CALL && fault.stack - stack < STACK_BYTES - 8) pc = *reinterpret_cast<const uintptr_t*>(fault.stack);
    if (!in_code(*w.run, pc)) {   // in a function of the runtime, or of the C library
        uint64_t calls[MAX_CALLS] = {};
        find_calls(w, fault.frame, calls);
        pc = calls[0];
    }
    report(w, kind, pc, false, fault.address, 0, {}, fault.frame);
}

}   // namespace faults
