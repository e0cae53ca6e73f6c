// Fibers: a stack for each thread of a block, and a switch between them in a dozen instructions.
// Depends on: state.h
#pragma once

#include "state.h"

extern "C" void tiledmm_switch(void** save, void* load);
extern "C" void tiledmm_resume();   // the second half of it: with the stack pointer `load`, returns there

ALWAYS_INLINE void leave(Worker& w, State state) {
    Fiber& fiber = *w.current;
    fiber.state = state;
    tiledmm_switch(&fiber.stack_pointer, w.scheduler);
}

// Ends the current thread and its block.
[[noreturn]] inline void abort_block(Worker& w) {
    w.aborted = true;
    leave(w, State::DONE);
    std::abort();   // a finished thread is not resumed
}

// Ends the current thread and the whole launch.
[[noreturn]] inline void abort_launch(Worker& w) {
    stop_from_here(w);
    abort_block(w);
}
