// Reductions over the lanes of a group.
#pragma once

#include <cooperative_groups.h>

namespace cooperative_groups {

#define TILEDMM_OPERATION(name, expression)                                  \
    template <class T>                                                       \
    struct name {                                                            \
        __forceinline__ T operator()(T x, T y) const { return expression; }  \
    };
TILEDMM_OPERATION(plus, x + y)
TILEDMM_OPERATION(less, y < x ? y : x)
TILEDMM_OPERATION(greater, x < y ? y : x)
TILEDMM_OPERATION(bit_and, x& y)
TILEDMM_OPERATION(bit_or, x | y)
TILEDMM_OPERATION(bit_xor, x ^ y)
#undef TILEDMM_OPERATION

template <unsigned SIZE, class Parent, class T, class Operation>
__forceinline__ T reduce(const thread_block_tile<SIZE, Parent>& tile, T value, Operation operation) {
    for (unsigned by = SIZE / 2; by; by /= 2) value = operation(value, tile.shfl_xor(value, by));
    return value;
}
template <class T, class Operation>
__forceinline__ T reduce(const coalesced_group& group, T value, Operation operation) {
    T result = group.shfl(value, 0);
    for (unsigned rank = 1; rank < group.size(); ++rank) result = operation(result, group.shfl(value, rank));
    return result;
}

}   // namespace cooperative_groups
