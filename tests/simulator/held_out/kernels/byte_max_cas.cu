// The largest byte of each group: groups have bytes, and the atomic swap works on the words that hold four of them.
__device__ void atomic_max_byte(unsigned char* bytes, int i, unsigned value) {
    unsigned* word = reinterpret_cast<unsigned*>(bytes) + i / 4;
    int shift = 8 * (i % 4);
    unsigned old = atomicAdd(word, 0u), assumed;
    do {
        assumed = old;
        if ((assumed >> shift & 255u) >= value) return;
        unsigned wanted = (assumed & ~(255u << shift)) | value << shift;
        old = atomicCAS(word, assumed, wanted);
    } while (old != assumed);
}

__global__ void byte_max_cas(const unsigned char* x, const unsigned char* group, unsigned char* largest, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomic_max_byte(largest, group[i], x[i]);
}
