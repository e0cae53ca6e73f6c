// Copies from global to shared memory that a thread does not wait for: __pipeline_memcpy_async and similar functions.
#pragma once

#include "intrinsics.h"
#include "runtime.h"

__forceinline__ void __pipeline_memcpy_async(void* shared, const void* global, size_t bytes, size_t zeros = 0) {
    if (!((bytes == 4 || bytes == 8 || bytes == 16) && zeros <= bytes))
        tiledmm_assert_failed("__pipeline_memcpy_async copies 4, 8 or 16 bytes, and no more of them are zeros");
#if __CUDA_ARCH__ >= 800
    tiledmm_copy_async(shared, global, static_cast<unsigned>(bytes), static_cast<unsigned>(bytes - zeros));
#else
    for (size_t i = 0; i < bytes; i += 4)
        static_cast<unsigned*>(shared)[i / 4] = i < bytes - zeros ? static_cast<const unsigned*>(global)[i / 4] : 0;
#endif
}
__forceinline__ void __pipeline_commit() { tiledmm_commit_copies(); }
__forceinline__ void __pipeline_wait_prior(size_t groups) { tiledmm_wait_for_copies(static_cast<unsigned>(groups)); }
