// In how many bits pairs of words of 128 bits differ, and for each row the least: half a warp for each row of a tile.
__device__ int differing(uint4 a, uint4 b) {
    return __popc(a.x ^ b.x) + __popc(a.y ^ b.y) + __popc(a.z ^ b.z) + __popc(a.w ^ b.w);
}

__global__ void hamming_matrix(const uint4* left, const uint4* right, unsigned char* out, int* nearest, int m, int n) {
    __shared__ uint4 rows[8], columns[16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 8 + ty, column = blockIdx.x * 16 + tx;
    if (tx == 0 && row < m) rows[ty] = left[row];
    if (ty == 0 && column < n) columns[tx] = right[column];
    __syncthreads();  // words are here
    int distance = 1000;
    if (row < m && column < n) {
        distance = differing(rows[ty], columns[tx]);
        out[row * n + column] = (unsigned char)distance;
    }
    for (int offset = 8; offset > 0; offset >>= 1)
        distance = min(distance, __shfl_xor_sync(0xffffffffu, distance, offset));
    if (tx == 0 && row < m) atomicMin(&nearest[row], distance);
}
