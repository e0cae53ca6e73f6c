// Hopper's asynchronous instructions for the CPU: tiledmm/simulator/build/translation/ptx writes calls of these functions,
// and of those of asynchronous.h, for inline PTX.
//
// Constants have names in lower case: a kernel's macros often have those of asynchronous.h, such as F16 and MAX.
//
// Depends on: asynchronous.h, cuda.h, inline_ptx.h, warps.h
#pragma once

#include "asynchronous.h"
#include "cuda.h"
#include "inline_ptx.h"
#include "warps.h"

namespace tiledmm_asynchronous {

using tiledmm_detail::BulkCopy;
using tiledmm_detail::CopyWay;
using tiledmm_detail::ElementType;
using tiledmm_detail::Reduction;
using tiledmm_detail::TensorCopy;

// ---- constants ----

constexpr unsigned parity = tiledmm_detail::PARITY, may_wait = tiledmm_detail::MAY_WAIT, relaxed = tiledmm_detail::RELAXED;
constexpr unsigned of_cluster = tiledmm_detail::OF_CLUSTER, drops = tiledmm_detail::DROPS, expects = tiledmm_detail::EXPECTS;
constexpr unsigned no_complete = tiledmm_detail::NO_COMPLETE, no_increment = tiledmm_detail::NO_INCREMENT;

constexpr Reduction no_reduction = tiledmm_detail::NO_REDUCTION, reduce_add = tiledmm_detail::ADD;
constexpr Reduction reduce_min = tiledmm_detail::MIN, reduce_max = tiledmm_detail::MAX;
constexpr Reduction reduce_inc = tiledmm_detail::INC, reduce_dec = tiledmm_detail::DEC;
constexpr Reduction reduce_and = tiledmm_detail::AND, reduce_or = tiledmm_detail::OR, reduce_xor = tiledmm_detail::XOR;

constexpr ElementType type_u8 = tiledmm_detail::U8, type_s8 = tiledmm_detail::S8;
constexpr ElementType type_u32 = tiledmm_detail::U32, type_s32 = tiledmm_detail::S32, type_b32 = tiledmm_detail::B32;
constexpr ElementType type_u64 = tiledmm_detail::U64, type_s64 = tiledmm_detail::S64, type_b64 = tiledmm_detail::B64;
constexpr ElementType type_f16 = tiledmm_detail::F16, type_bf16 = tiledmm_detail::BF16, type_tf32 = tiledmm_detail::TF32;
constexpr ElementType type_f32 = tiledmm_detail::F32, type_f64 = tiledmm_detail::F64;
constexpr ElementType type_e4m3 = tiledmm_detail::E4M3, type_e5m2 = tiledmm_detail::E5M2;

// ---- operands ----

// A kernel's variable as the register that it is: it is neither read nor written here.
template <class Register, class T>
__forceinline__ Register& in_place(T& variable) {
    static_assert(sizeof(T) == sizeof(Register), "this variable does not have the size of its register");
    return reinterpret_cast<Register&>(variable);
}
template <class Register, class T>
__forceinline__ const Register& in_place(const T& variable) {
    static_assert(sizeof(T) == sizeof(Register), "this variable does not have the size of its register");
    return reinterpret_cast<const Register&>(variable);
}

// The value of a variable that wgmma reads: no access by the thread, which would need a fence before wgmma.
__attribute__((noinline, no_sanitize("thread"))) inline unsigned word_at(const void* variable) {
    unsigned word;
    __builtin_memcpy(&word, variable, sizeof word);
    return word;
}
template <class Register>
__forceinline__ unsigned unchecked(const Register& variable) {
    return word_at(&variable);
}

// The address of an operand's variable; null if it is a value without one. T: a reference, as auto&& declares it.
template <class T>
constexpr bool IS_VARIABLE = false;
template <class T>
constexpr bool IS_VARIABLE<T&> = true;

template <class T, class Variable>
__forceinline__ const void* place(const Variable& variable) {
    if constexpr (IS_VARIABLE<T>)
        return __builtin_addressof(variable);
    else
        return nullptr;
}

template <long long VALUE, long long FIRST, long long SECOND>
struct OneOf {
    static_assert(VALUE == FIRST || VALUE == SECOND, "a scale of wgmma is 1 or -1, a transposition 0 or 1");
    static constexpr int value = static_cast<int>(VALUE);
};
template <long long VALUE, long long FIRST, long long SECOND>
constexpr int one_of = OneOf<VALUE, FIRST, SECOND>::value;

// ---- addresses ----

template <class Register>
__forceinline__ unsigned shared_number(Register address) {
    return static_cast<unsigned>(address);
}
template <class Register>
__forceinline__ unsigned window_number(Register address) {
    return tiledmm_window_address(tiledmm_ptx::global(address));
}
template <class Register>
__forceinline__ void* cluster_memory(Register address) {
    return tiledmm_cluster_address(static_cast<unsigned>(address));
}

template <class Register>
__forceinline__ unsigned map_shared(Register address, unsigned rank) {
    return tiledmm_map_shared(static_cast<unsigned>(address), rank);
}
template <class Register>
__forceinline__ unsigned long map_generic(Register address, unsigned rank) {
    return reinterpret_cast<unsigned long>(tiledmm_map_generic(tiledmm_ptx::global(address), rank));
}
template <class Register>
__forceinline__ unsigned rank_of_shared(Register address) {
    return tiledmm_rank_of(static_cast<unsigned>(address));
}
template <class Register>
__forceinline__ unsigned rank_of_generic(Register address) {
    return tiledmm_rank_of_generic(tiledmm_ptx::global(address));
}

// ---- clusters and warps ----

__forceinline__ unsigned cluster_blocks() {
    const uint3 size = tiledmm_cluster_size();
    return size.x * size.y * size.z;
}

// elect.sync: the lowest lane of those that execute it.
__forceinline__ unsigned elect(unsigned mask) {
    const unsigned lanes = ::__ballot_sync(mask, 1);
    return lanes ? static_cast<unsigned>(__builtin_ctz(lanes)) : 0;
}

template <long long COUNT, bool INCREASES>
__forceinline__ void set_registers() {
    static_assert(COUNT >= 24 && COUNT <= 256 && COUNT % 8 == 0, "setmaxnreg: a multiple of 8 from 24 to 256");
    tiledmm_set_registers(COUNT, INCREASES);
}

// ---- bulk copies ----

// Arguments: in the order of the instruction's operands.
__forceinline__ void load_bulk(CopyWay way, unsigned to, const void* from, unsigned bytes, unsigned barrier,
                               unsigned blocks) {
    const BulkCopy copy = {way, no_reduction, type_u8, to, 0, const_cast<void*>(from), bytes, barrier, blocks, 1};
    tiledmm_copy_bulk(&copy);
}
__forceinline__ void store_bulk(void* to, unsigned from, unsigned bytes, Reduction reduction, ElementType type) {
    const BulkCopy copy = {tiledmm_detail::TO_GLOBAL, reduction, type, from, 0, to, bytes, 0, 0, 0};
    tiledmm_ptx::compiler_fence();
    tiledmm_copy_bulk(&copy);
}
__forceinline__ void send_bulk(unsigned to, unsigned from, unsigned bytes, unsigned barrier, Reduction reduction,
                               ElementType type) {
    const BulkCopy copy = {tiledmm_detail::BETWEEN_SHARED, reduction, type, to, from, nullptr, bytes, barrier, 0, 1};
    tiledmm_ptx::compiler_fence();
    tiledmm_copy_bulk(&copy);
}
__forceinline__ void prefetch_bulk(const void* from, unsigned bytes) {
    const BulkCopy copy = {tiledmm_detail::TO_L2, no_reduction, type_u8, 0, 0, const_cast<void*>(from), bytes, 0, 0, 0};
    tiledmm_copy_bulk(&copy);
}

template <int DIMENSIONS>
__forceinline__ void copy_tensor(CopyWay way, Reduction reduction, const void* map, const int (&at)[DIMENSIONS],
                                 unsigned shared, unsigned barrier, unsigned blocks) {
    TensorCopy copy = {way, reduction, map, DIMENSIONS, {}, shared, barrier, blocks};
    for (int i = 0; i < DIMENSIONS; ++i) copy.at[i] = at[i];
    tiledmm_ptx::compiler_fence();
    tiledmm_copy_tensor(&copy);
}
template <int DIMENSIONS>
__forceinline__ void load_tensor(CopyWay way, unsigned to, const void* map, const int (&at)[DIMENSIONS], unsigned barrier,
                                 unsigned blocks) {
    copy_tensor(way, no_reduction, map, at, to, barrier, blocks);
}
template <int DIMENSIONS>
__forceinline__ void store_tensor(const void* map, const int (&at)[DIMENSIONS], unsigned from, Reduction reduction) {
    copy_tensor(tiledmm_detail::TO_GLOBAL, reduction, map, at, from, 0, 0);
}
template <int DIMENSIONS>
__forceinline__ void prefetch_tensor(const void* map, const int (&at)[DIMENSIONS]) {
    copy_tensor(tiledmm_detail::TO_L2, no_reduction, map, at, 0, 0, 0);
}

}   // namespace tiledmm_asynchronous
