// A thread that wants to read what its bulk store has written waits for the group itself (wait_group), not only until
// shared memory has been read (wait_group.read). Then it tells the other threads, by a barrier.
#include "hopper.cuh"

constexpr int COUNT = 128;

extern "C" __global__ void bulk_read_back(const int* in, int* squares, int* sums) {
    __shared__ alignas(16) int row[COUNT];
    const int t = threadIdx.x, base = blockIdx.x * COUNT;

    row[t] = in[base + t] * in[base + t];
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        bulk_store(squares + base, row, sizeof(row));
        bulk_commit_group();
        // The writes are complete, and visible to this thread.
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    sums[base + t] = squares[base + t] + squares[base + (t + 1) % COUNT];
}
