// What the parameters of a kernel are, and how it is called with any: before the kernel's text, whose macros may have any name.
// Depends on: nothing
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
__attribute__((no_sanitize("thread"), no_sanitize("kernel-address"))) void call(void (*kernel)(Parameters...), void* const* arguments, Indices<I...>) {
    kernel(*static_cast<Parameters*>(arguments[I])...);
}

template <class... Parameters>
constexpr int parameters(void (*)(Parameters...)) {
    return sizeof...(Parameters);
}

// ---- what the parameters are: mirrored in parameters.py, field by field ----

enum ParameterKind : unsigned { POINTER, SIGNED, UNSIGNED, FLOAT, BOOL, OTHER };

struct Parameter {
    unsigned kind, read_only;   // read_only: a pointer to const
    unsigned bytes;
    unsigned element_bytes, element_alignment, element_kind;   // of what a pointer points to; 0 for void
    const char* text;           // ends with "T = type]"
};

template <class T>
struct KindOf {
    static constexpr unsigned value = OTHER;
};
#define TILEDMM_KIND(type, kind)                    \
    template <>                                     \
    struct KindOf<type> {                           \
        static constexpr unsigned value = kind;     \
    };
TILEDMM_KIND(char, SIGNED)
TILEDMM_KIND(signed char, SIGNED)
TILEDMM_KIND(short, SIGNED)
TILEDMM_KIND(int, SIGNED)
TILEDMM_KIND(long, SIGNED)
TILEDMM_KIND(long long, SIGNED)
TILEDMM_KIND(unsigned char, UNSIGNED)
TILEDMM_KIND(unsigned short, UNSIGNED)
TILEDMM_KIND(unsigned int, UNSIGNED)
TILEDMM_KIND(unsigned long, UNSIGNED)
TILEDMM_KIND(unsigned long long, UNSIGNED)
TILEDMM_KIND(float, FLOAT)
TILEDMM_KIND(double, FLOAT)
TILEDMM_KIND(bool, BOOL)
#undef TILEDMM_KIND

template <class T>
const char* type_text() {
    return __PRETTY_FUNCTION__;
}

template <class T>
struct Plain {
    using type = T;
};
template <class T>
struct Plain<const T> {
    using type = T;
};
template <class T>
struct Plain<volatile T> {
    using type = T;
};
template <class T>
struct Plain<const volatile T> {
    using type = T;
};

template <class T>
struct IsConst {
    static constexpr bool value = false;
};
template <class T>
struct IsConst<const T> {
    static constexpr bool value = true;
};

template <class T>
struct Describe {
    static Parameter get() { return {KindOf<T>::value, 0, sizeof(T), 0, 0, 0, type_text<T>()}; }
};
template <class T>
struct Describe<T*> {
    static Parameter get() {
        return {POINTER, IsConst<T>::value, sizeof(T*), sizeof(T), alignof(T), KindOf<typename Plain<T>::type>::value,
                type_text<T*>()};
    }
};
#define TILEDMM_VOID(type, read_only)                                                                            \
    template <>                                                                                                  \
    struct Describe<type*> {                                                                                     \
        static Parameter get() { return {POINTER, read_only, sizeof(type*), 0, 0, OTHER, type_text<type*>()}; }  \
    };
TILEDMM_VOID(void, 0)
TILEDMM_VOID(const void, 1)
#undef TILEDMM_VOID

// Called by the host, whose stack has no shadow memory.
template <class... Parameters>
__attribute__((no_sanitize("thread"), no_sanitize("kernel-address"))) void describe(void (*)(Parameters...), Parameter* into) {
    const Parameter all[] = {Describe<Parameters>::get()..., Parameter{}};
    for (unsigned i = 0; i < sizeof...(Parameters); ++i) into[i] = all[i];
}

}   // namespace tiledmm_detail
