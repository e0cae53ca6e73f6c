// printf from a few threads.
#include <stdio.h>

__global__ void print_values(const int* in, int* out, int n) {
    int i = threadIdx.x;
    if (i < n) {
        out[i] = in[i] + 1;
        if (i % 4 == 0) printf("block %d, thread %d: %d\n", blockIdx.x, i, out[i]);
    }
}
