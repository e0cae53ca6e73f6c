// Statistics of groups of numbers, kept in global memory behind a lock that serves warps by ticket.
struct Totals {
    int count, smallest, largest;
    long long sum;
};

__global__ void ticket_lock(const int* x, Totals* totals, unsigned* next, unsigned* serving, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = i < n ? x[i] : 0;
    int low = __reduce_min_sync(0xFFFFFFFFu, i < n ? v : 0x7FFFFFFF);
    int high = __reduce_max_sync(0xFFFFFFFFu, i < n ? v : (int)0x80000000);
    int sum = __reduce_add_sync(0xFFFFFFFFu, v);
    int count = __popc(__ballot_sync(0xFFFFFFFFu, i < n));
    if (threadIdx.x % 32 == 0 && count > 0) {
        unsigned ticket = atomicAdd(next, 1u);
        while (atomicAdd(serving, 0u) != ticket) {
        }
        __threadfence();  // after the lock is taken
        totals->count += count;
        totals->smallest = min(totals->smallest, low);
        totals->largest = max(totals->largest, high);
        totals->sum += sum;
        __threadfence();  // before the lock is given back
        atomicAdd(serving, 1u);
    }
}
