// Counts of keys in a hash table with open addressing.
#define EMPTY 0xffffffffu

__global__ void hash_count(const unsigned* keys, unsigned* table, int* counts, int n, unsigned capacity) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        unsigned key = keys[i];
        unsigned slot = (key * 2654435761u) % capacity;
        while (true) {
            unsigned old = atomicCAS(&table[slot], EMPTY, key);
            if (old == EMPTY || old == key) {
                atomicAdd(&counts[slot], 1);
                break;
            }
            slot = (slot + 1) % capacity;
        }
    }
}
