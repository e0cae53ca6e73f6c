// Where a short pattern occurs in a text: a block searches 64 places.
#define CHUNK 64
#define LONGEST 16

__global__ void find_pattern(const char* text, int n, const char* pattern, int length, int* matches, int* count) {
    __shared__ char chunk[CHUNK + LONGEST];
    __shared__ char p[LONGEST];
    int t = threadIdx.x;
    int first = blockIdx.x * CHUNK;
    for (int i = t; i < CHUNK + length - 1; i += blockDim.x) {
        chunk[i] = first + i < n ? text[first + i] : 0;
    }
    if (t < length) p[t] = pattern[t];
    __syncthreads();
    bool hit = first + t + length <= n;
    for (int j = 0; hit && j < length; ++j) {
        hit = chunk[t + j] == p[j];
    }
    if (hit) matches[atomicAdd(count, 1)] = first + t;
}
