// The entry point of a kernel with any parameters: included after its text.
// Depends on: a kernel's text, and cuda.h before that
#pragma once

namespace tiledmm_detail {

template <int... I>
struct Indices {};
template <int N, int... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <int... I>
struct Count<0, I...> {
    using type = Indices<I...>;
};

template <class... Parameters, int... I>
__attribute__((no_sanitize("thread"))) void call(void (*kernel)(Parameters...), void* const* arguments, Indices<I...>) {
    kernel(*static_cast<Parameters*>(arguments[I])...);
}

template <class... Parameters>
constexpr int parameters(void (*)(Parameters...)) {
    return sizeof...(Parameters);
}

}   // namespace tiledmm_detail

// Runs the thread of the current fiber.
extern "C" __attribute__((no_sanitize("thread"), visibility("default"))) void tiledmm_run_thread(void* const* arguments) {
    tiledmm_detail::call(TILEDMM_KERNEL, arguments,
                         tiledmm_detail::Count<tiledmm_detail::parameters(&TILEDMM_KERNEL)>::type{});
}

// The calling thread's copy of this variable: its copies of the shared arrays have known offsets from it.
thread_local char tiledmm_anchor;
extern "C" __attribute__((visibility("default"))) void* tiledmm_anchor_address() { return &tiledmm_anchor; }
