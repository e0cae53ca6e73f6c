// Prefix sums over the lanes of a group.
#pragma once

#include <cooperative_groups/reduce.h>

namespace cooperative_groups {

template <class Group, class T, class Operation>
__forceinline__ T inclusive_scan(const Group& group, T value, Operation operation) {
    for (unsigned by = 1; by < group.size(); by *= 2) {
        const T before = group.shfl_up(value, by);
        if (group.thread_rank() >= by) value = operation(before, value);
    }
    return value;
}
template <class Group, class T>
__forceinline__ T inclusive_scan(const Group& group, T value) {
    return inclusive_scan(group, value, plus<T>());
}
template <class Group, class T, class Operation>
__forceinline__ T exclusive_scan(const Group& group, T value, Operation operation) {
    const T before = group.shfl_up(inclusive_scan(group, value, operation), 1);
    return group.thread_rank() ? before : T{};
}
template <class Group, class T>
__forceinline__ T exclusive_scan(const Group& group, T value) {
    return exclusive_scan(group, value, plus<T>());
}

}   // namespace cooperative_groups
