// Dilates a bitmap by a pixel: words of 32 pixels, with a border of words around the block's part in shared memory.
__global__ void dilate_bits(const unsigned* in, unsigned* out, int* set, int words, int height) {
    __shared__ unsigned tile[10][10];
    int x0 = blockIdx.x * 8 - 1, y0 = blockIdx.y * 8 - 1;
    int tid = threadIdx.y * 8 + threadIdx.x;
    for (int i = tid; i < 100; i += 64) {
        int x = x0 + i % 10, y = y0 + i / 10;
        tile[i / 10][i % 10] = x >= 0 && x < words && y >= 0 && y < height ? in[y * words + x] : 0u;
    }
    __syncthreads();
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= words || y >= height) return;
    unsigned all = 0;
    for (int dy = 0; dy < 3; dy++) {
        const unsigned* row = &tile[threadIdx.y + dy][threadIdx.x];
        all |= row[1] | row[1] << 1 | row[1] >> 1 | row[0] >> 31 | row[2] << 31;
    }
    out[y * words + x] = all;
    atomicAdd(set, __popc(all));
}
