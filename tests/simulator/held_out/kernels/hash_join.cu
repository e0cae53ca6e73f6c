// Joins two lists by key: each block puts the short one into a table in shared memory; it looks up a part of the other.
__device__ unsigned slot_of(int key) {
    return (unsigned)key * 2654435769u >> 25;
}

__global__ void hash_join(const int* buildKeys, const int* buildValues, int builds, const int* probes, int* out,
                          int n) {
    __shared__ int keys[128];
    __shared__ int values[128];
    for (int i = threadIdx.x; i < 128; i += blockDim.x) keys[i] = -1;
    __syncthreads();  // empty
    for (int i = threadIdx.x; i < builds; i += blockDim.x) {
        unsigned slot = slot_of(buildKeys[i]);
        while (atomicCAS(&keys[slot], -1, buildKeys[i]) != -1) slot = (slot + 1) % 128;
        values[slot] = buildValues[i];
    }
    __syncthreads();  // built
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int key = probes[i], result = -1;
        for (unsigned slot = slot_of(key); keys[slot] != -1; slot = (slot + 1) % 128) {
            if (keys[slot] == key) {
                result = values[slot];
                break;
            }
        }
        out[i] = result;
    }
}
