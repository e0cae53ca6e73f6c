// Appends the indices of peaks to a list: the threads of a warp that found one take their places with one atomic.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ int take(int* count) {
    cg::coalesced_group group = cg::coalesced_threads();
    int first = 0;
    if (group.thread_rank() == 0) first = atomicAdd(count, (int)group.size());
    return group.shfl(first, 0) + (int)group.thread_rank();
}

__global__ void coalesced_append(const int* x, int* list, int* count, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        bool above = i == 0 || x[i] > x[i - 1];
        bool below = i == n - 1 || x[i] > x[i + 1];
        if (above && below) list[take(count)] = i;
    }
}
