// A scan in one pass: a block publishes its sum, then looks back until it meets a prefix.
#define EMPTY 0
#define SUM 1
#define PREFIX 2

__device__ int next_tile = 0;

__global__ void scan_lookback(const int* in, int* out, volatile int* status, int* sums, int* prefixes) {
    __shared__ int s[64];
    __shared__ int tile, before;
    int tid = threadIdx.x;
    if (tid == 0) tile = atomicAdd(&next_tile, 1);
    __syncthreads();
    int i = tile * 64 + tid;
    s[tid] = in[i];
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {
        int add = tid >= d ? s[tid - d] : 0;
        __syncthreads();
        s[tid] += add;
        __syncthreads();
    }
    if (tid == 0) {
        int total = s[63];
        if (tile == 0) {
            prefixes[0] = total;
            __threadfence();
            status[0] = PREFIX;
            before = 0;
        } else {
            sums[tile] = total;
            __threadfence();
            status[tile] = SUM;
            int running = 0;
            int look = tile - 1;
            while (true) {
                int state = status[look];
                if (state == EMPTY) continue;
                __threadfence();
                if (state == PREFIX) {
                    running += prefixes[look];
                    break;
                }
                running += sums[look];
                --look;
            }
            prefixes[tile] = running + total;
            __threadfence();
            status[tile] = PREFIX;
            before = running;
        }
    }
    __syncthreads();
    out[i] = s[tid] + before;
}
