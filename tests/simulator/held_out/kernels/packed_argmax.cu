// The first place of the largest number: number and place in one word of 64 bits; the last block writes the result.
#define THREADS 96

__device__ unsigned long long best = 0;
__device__ unsigned finished = 0;

__global__ void packed_argmax(const float* x, int* place, float* value, int n) {
    __shared__ unsigned long long of_warps[THREADS / 32];
    unsigned long long mine = 0;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        unsigned bits = __float_as_uint(x[i]);
        unsigned key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        unsigned long long packed = (unsigned long long)key << 32 | (unsigned)(n - i);
        mine = packed > mine ? packed : mine;
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        unsigned long long other = __shfl_down_sync(0xffffffffu, mine, offset);
        mine = other > mine ? other : mine;
    }
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
    __syncthreads();  // all warps
    if (threadIdx.x == 0) {
        for (int w = 1; w < THREADS / 32; w++) mine = of_warps[w] > mine ? of_warps[w] : mine;
        atomicMax(&best, mine);
        __threadfence();
        if (atomicAdd(&finished, 1u) == gridDim.x - 1) {
            unsigned long long won = atomicMax(&best, 0ull);
            unsigned key = (unsigned)(won >> 32);
            *place = n - (int)(won & 0xffffffffull);
            *value = __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
        }
    }
}
