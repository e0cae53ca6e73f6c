// The entry points of a kernel: included after its text.
// Depends on: a kernel's text, and cuda.h before that
#pragma once

// Runs the thread of the current fiber.
extern "C" __attribute__((no_sanitize("thread"), no_sanitize("kernel-address"), visibility("default"))) void tiledmm_run_thread(void* const* arguments) {
    tiledmm_detail::call(TILEDMM_KERNEL, arguments,
                         tiledmm_detail::Count<tiledmm_detail::parameters(&TILEDMM_KERNEL)>::type{});
}

extern "C" __attribute__((no_sanitize("thread"), no_sanitize("kernel-address"), visibility("default"))) int tiledmm_parameter_count() {
    return tiledmm_detail::parameters(&TILEDMM_KERNEL);
}

extern "C" __attribute__((no_sanitize("thread"), no_sanitize("kernel-address"), visibility("default"))) void tiledmm_describe_parameters(
    tiledmm_detail::Parameter* into) {
    tiledmm_detail::describe(TILEDMM_KERNEL, into);
}

// What would end the process ends a thread of the kernel (linkage.py gives these the C library's names): exit() and abort(),
// and what tables of virtual functions refer to for a function that no class defines.
extern "C" void tiledmm_leave() { tiledmm_exit(); }
extern "C" void tiledmm_pure_virtual() { tiledmm_broken_rule(7); }

// new and delete, which linkage.py gives the names of C++'s.
extern "C" void* tiledmm_new(unsigned long bytes) { return tiledmm_allocate(bytes, 16, __builtin_return_address(0)); }
extern "C" void* tiledmm_new_aligned(unsigned long bytes, unsigned long alignment) {
    return tiledmm_allocate(bytes, alignment, __builtin_return_address(0));
}
extern "C" void tiledmm_delete(void* at) { tiledmm_free(at, __builtin_return_address(0)); }

// The calling thread's copy of this variable: its copies of the shared arrays have known offsets from it.
thread_local char tiledmm_anchor;
extern "C" __attribute__((visibility("default"))) void* tiledmm_anchor_address() { return &tiledmm_anchor; }
