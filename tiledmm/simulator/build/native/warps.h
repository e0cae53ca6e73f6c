// What the lanes of a warp do together: shuffles, votes, matches, reductions.
// Depends on: intrinsics.h, runtime.h
#pragma once

#include "intrinsics.h"
#include "runtime.h"

namespace tiledmm_detail {

// The type that a shuffle of T moves. Headers add their own.
template <class T>
struct Shuffled {
    static_assert(sizeof(T) == 0,
                  "a shuffle moves int, unsigned, long, long long, float, double, __half or __nv_bfloat16: "
                  "move a structure by its members");
    using type = T;
};
#define TILEDMM_SHUFFLED(from, to)    \
    template <>                       \
    struct Shuffled<from> {           \
        using type = to;              \
    };
TILEDMM_SHUFFLED(bool, int)
TILEDMM_SHUFFLED(char, int)
TILEDMM_SHUFFLED(signed char, int)
TILEDMM_SHUFFLED(unsigned char, int)
TILEDMM_SHUFFLED(short, int)
TILEDMM_SHUFFLED(unsigned short, int)
TILEDMM_SHUFFLED(int, int)
TILEDMM_SHUFFLED(unsigned, unsigned)
TILEDMM_SHUFFLED(long, long)
TILEDMM_SHUFFLED(unsigned long, unsigned long)
TILEDMM_SHUFFLED(long long, long long)
TILEDMM_SHUFFLED(unsigned long long, unsigned long long)
TILEDMM_SHUFFLED(float, float)
TILEDMM_SHUFFLED(double, double)

// Publishes a value; returns that of a lane.
template <class T>
__forceinline__ T shuffle(unsigned mask, T value, unsigned source, Exchange kind) {
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    tiledmm_exchange(mask, bits, kind);
    bits = tiledmm_shuffled(source, mask, kind == SHUFFLE || kind == SHUFFLE_XOR);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
__forceinline__ void check_width(int width) {
    if (width < 1 || width > 32 || width & (width - 1)) tiledmm_bad_shuffle_width(width);
}
template <class T>
__forceinline__ T shuffle(unsigned mask, T value, int source, int width) {
    check_width(width);
    return shuffle(mask, value, (tiledmm_lane() & ~(width - 1)) | (source & (width - 1)), SHUFFLE);
}
template <class T>
__forceinline__ T shuffle_up(unsigned mask, T value, unsigned lanes, int width) {
    check_width(width);
    const unsigned lane = tiledmm_lane(), by = lanes & 31;
    return shuffle(mask, value, (lane & (width - 1)) >= by ? lane - by : lane, SHUFFLE_UP);
}
template <class T>
__forceinline__ T shuffle_down(unsigned mask, T value, unsigned lanes, int width) {
    check_width(width);
    const unsigned lane = tiledmm_lane(), by = lanes & 31;
    return shuffle(mask, value, (lane & (width - 1)) + by < unsigned(width) ? lane + by : lane, SHUFFLE_DOWN);
}
template <class T>
__forceinline__ T shuffle_xor(unsigned mask, T value, int lanes, int width) {
    check_width(width);
    const unsigned lane = tiledmm_lane(), source = lane ^ (lanes & 31);   // a lane of a later segment keeps its own value
    return shuffle(mask, value, source < (lane & ~(width - 1)) + width ? source : lane, SHUFFLE_XOR);
}

__forceinline__ unsigned ballot(unsigned mask, bool predicate, Exchange kind) {
    tiledmm_exchange(mask, predicate, kind);
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1 && tiledmm_exchanged(lane)) votes |= 1u << lane;
    return votes;
}

// What a lane published, with a bit that lanes have not that ended or do not exist.
constexpr unsigned long long PRESENT = 1ull << 32;

// The lanes of the mask that are there, and those with the same 32 bits.
__forceinline__ unsigned match(unsigned mask, unsigned bits, Exchange kind, unsigned& present) {
    tiledmm_exchange(mask, PRESENT | bits, kind);
    unsigned same = 0;
    present = 0;
    for (unsigned lane = 0; lane < 32; ++lane) {
        const unsigned long long other = mask >> lane & 1 ? tiledmm_exchanged(lane) : 0;
        if (other & PRESENT) present |= 1u << lane;
        if (other == (PRESENT | bits)) same |= 1u << lane;
    }
    return same;
}
template <class T>
__forceinline__ unsigned match(unsigned mask, T value, Exchange kind, unsigned& present) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "__match_any_sync and __match_all_sync compare values of 4 or 8 bytes");
    unsigned words[2] = {};
    __builtin_memcpy(words, &value, sizeof(T));
    const unsigned low = match(mask, words[0], kind, present);
    return sizeof(T) == 4 ? low : low & match(mask, words[1], kind, present);
}

template <class T, class Combine>
__forceinline__ T reduce(unsigned mask, T value, Exchange kind, Combine combine) {
    tiledmm_exchange(mask, PRESENT | static_cast<unsigned>(value), kind);
    T result = value;
    for (unsigned lane = 0; lane < 32; ++lane) {
        const unsigned long long other = mask >> lane & 1 && lane != tiledmm_lane() ? tiledmm_exchanged(lane) : 0;
        if (other & PRESENT) result = combine(result, static_cast<T>(other));
    }
    return result;
}

}   // namespace tiledmm_detail

template <class T>
__forceinline__ typename tiledmm_detail::Shuffled<T>::type __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    return tiledmm_detail::shuffle(mask, static_cast<typename tiledmm_detail::Shuffled<T>::type>(value), source, width);
}
template <class T>
__forceinline__ typename tiledmm_detail::Shuffled<T>::type __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
    return tiledmm_detail::shuffle_up(mask, static_cast<typename tiledmm_detail::Shuffled<T>::type>(value), lanes, width);
}
template <class T>
__forceinline__ typename tiledmm_detail::Shuffled<T>::type __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
    return tiledmm_detail::shuffle_down(mask, static_cast<typename tiledmm_detail::Shuffled<T>::type>(value), lanes, width);
}
template <class T>
__forceinline__ typename tiledmm_detail::Shuffled<T>::type __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
    return tiledmm_detail::shuffle_xor(mask, static_cast<typename tiledmm_detail::Shuffled<T>::type>(value), lanes, width);
}

__forceinline__ unsigned __activemask() { return tiledmm_active_mask(); }
__forceinline__ unsigned __ballot_sync(unsigned mask, int predicate) {
    return tiledmm_detail::ballot(mask, predicate != 0, tiledmm_detail::BALLOT);
}
__forceinline__ int __any_sync(unsigned mask, int predicate) {
    return tiledmm_detail::ballot(mask, predicate != 0, tiledmm_detail::ANY) != 0;
}
__forceinline__ int __all_sync(unsigned mask, int predicate) {
    return tiledmm_detail::ballot(mask, predicate == 0, tiledmm_detail::ALL) == 0;
}
__forceinline__ int __uni_sync(unsigned mask, int predicate) {
    unsigned present;
    const unsigned same = tiledmm_detail::match(mask, static_cast<unsigned>(predicate != 0), tiledmm_detail::ALL, present);
    return same == present;
}
template <class T>
__forceinline__ unsigned __match_any_sync(unsigned mask, T value) {
    unsigned present;
    return tiledmm_detail::match(mask, static_cast<typename tiledmm_detail::Shuffled<T>::type>(value), tiledmm_detail::MATCH_ANY, present);
}
template <class T>
__forceinline__ unsigned __match_all_sync(unsigned mask, T value, int* all) {
    unsigned present;
    const unsigned same =
        tiledmm_detail::match(mask, static_cast<typename tiledmm_detail::Shuffled<T>::type>(value), tiledmm_detail::MATCH_ALL, present);
    *all = same == present;
    return *all ? mask : 0;
}

#if __CUDA_ARCH__ >= 800
#define TILEDMM_REDUCE(name, type, kind, expression)                                                              \
    __forceinline__ type name(unsigned mask, type value) {                                                        \
        return tiledmm_detail::reduce(mask, value, tiledmm_detail::kind, [](type x, type y) -> type { return expression; }); \
    }
TILEDMM_REDUCE(__reduce_add_sync, unsigned, REDUCE_ADD, x + y)
TILEDMM_REDUCE(__reduce_add_sync, int, REDUCE_ADD, static_cast<int>(static_cast<unsigned>(x) + static_cast<unsigned>(y)))
TILEDMM_REDUCE(__reduce_min_sync, unsigned, REDUCE_MIN, x < y ? x : y)
TILEDMM_REDUCE(__reduce_min_sync, int, REDUCE_MIN, x < y ? x : y)
TILEDMM_REDUCE(__reduce_max_sync, unsigned, REDUCE_MAX, x > y ? x : y)
TILEDMM_REDUCE(__reduce_max_sync, int, REDUCE_MAX, x > y ? x : y)
TILEDMM_REDUCE(__reduce_and_sync, unsigned, REDUCE_AND, x& y)
TILEDMM_REDUCE(__reduce_or_sync, unsigned, REDUCE_OR, x | y)
TILEDMM_REDUCE(__reduce_xor_sync, unsigned, REDUCE_XOR, x ^ y)
#undef TILEDMM_REDUCE
#endif

// The position of the nth set bit from a base, upward (offset > 0) or downward: ~0 if there is none.
__forceinline__ unsigned __fns(unsigned mask, unsigned base, int offset) {
    if (offset == 0) return mask >> (base & 31) & 1 ? base : ~0u;
    for (int at = static_cast<int>(base), left = offset < 0 ? -offset : offset; at >= 0 && at < 32; at += offset < 0 ? -1 : 1)
        if (mask >> at & 1 && --left == 0) return static_cast<unsigned>(at);
    return ~0u;
}
