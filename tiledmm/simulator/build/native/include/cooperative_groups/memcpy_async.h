// Copies to shared memory by all threads of a group, in chunks of 16 or 4 bytes where addresses and size allow it.
#pragma once

#include <cooperative_groups.h>

namespace cooperative_groups {

template <class Group>
__forceinline__ void memcpy_async(const Group& group, void* to, const void* from, size_t bytes) {
    const size_t together = reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from) | bytes;
    const size_t chunk = together % 16 == 0 ? 16 : together % 4 == 0 ? 4 : 1;
    for (size_t at = group.thread_rank() * chunk; at < bytes; at += group.size() * chunk) {
        unsigned char* const out = static_cast<unsigned char*>(to) + at;
        const unsigned char* const in = static_cast<const unsigned char*>(from) + at;
        if (chunk == 1)
            *out = *in;
#if __CUDA_ARCH__ >= 800
        else
            tiledmm_copy_async(out, in, static_cast<unsigned>(chunk), static_cast<unsigned>(chunk));
#else
        else
            for (size_t i = 0; i < chunk; i += 4) *reinterpret_cast<unsigned*>(out + i) = *reinterpret_cast<const unsigned*>(in + i);
#endif
    }
    tiledmm_commit_copies();
}
template <class Group, class T>
__forceinline__ void memcpy_async(const Group& group, T* to, size_t room, const T* from, size_t count) {
    memcpy_async(group, static_cast<void*>(to), static_cast<const void*>(from), (count < room ? count : room) * sizeof(T));
}
template <class Group>
__forceinline__ void wait(const Group& group) {
    tiledmm_wait_for_copies(0);
    group.sync();
}
template <unsigned PENDING, class Group>
__forceinline__ void wait_prior(const Group& group) {
    tiledmm_wait_for_copies(PENDING);
    group.sync();
}

}   // namespace cooperative_groups
