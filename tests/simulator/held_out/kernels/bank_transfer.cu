// Transfers between accounts, each of which has a lock: a thread per transfer takes two locks, the smaller one first.
__device__ void acquire(int* lock) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();  // after the lock is taken
}

__device__ void release(int* lock) {
    __threadfence();  // before the lock is given back
    atomicExch(lock, 0);
}

__global__ void bank_transfer(int* balance, int* locks, const int3* transfers, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    int from = transfers[t].x, to = transfers[t].y;
    if (from == to) return;
    int low = min(from, to), high = max(from, to);
    acquire(&locks[low]);
    acquire(&locks[high]);
    balance[from] -= transfers[t].z;
    balance[to] += transfers[t].z;
    release(&locks[high]);
    release(&locks[low]);
}
