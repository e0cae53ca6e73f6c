// Running sums that start anew at each head: a warp for each row, 32 numbers at a time, and what is carried on.
__global__ void segmented_scan(const int* x, const unsigned char* head, int* out, int rows, int columns) {
    int lane = threadIdx.x % 32;
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;
    int carry = 0;
    for (int base = 0; base < columns; base += 32) {
        int j = base + lane;
        int v = j < columns ? x[row * columns + j] : 0;
        bool starts = j < columns && head[row * columns + j] != 0;
        unsigned heads = __ballot_sync(0xffffffffu, starts);
        unsigned before = heads & 0xffffffffu >> (31 - lane);
        int first = before ? 31 - __clz(before) : 0;
        for (int offset = 1; offset < 32; offset *= 2) {
            int from = __shfl_up_sync(0xffffffffu, v, offset);
            if (lane - offset >= first) v += from;
        }
        if (!before) v += carry;
        if (j < columns) out[row * columns + j] = v;
        carry = __shfl_sync(0xffffffffu, v, 31);
    }
}
