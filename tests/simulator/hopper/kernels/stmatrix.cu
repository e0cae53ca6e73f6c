// stmatrix writes 8 x 8 matrices of 16-bit elements from the registers of a warp, in which each lane has two elements
// of a row, as after wgmma and mma. Every lane gives the address of one row. With .trans, columns are written as
// rows.
#include "hopper.cuh"

__device__ __forceinline__ void stmatrix_x4(void* row, const u32 (&m)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(smem(row)), "r"(m[0]),
                 "r"(m[1]), "r"(m[2]), "r"(m[3])
                 : "memory");
}
__device__ __forceinline__ void stmatrix_x2_trans(void* row, u32 m0, u32 m1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(smem(row)), "r"(m0), "r"(m1)
                 : "memory");
}

extern "C" __global__ void stmatrix(short* out, short* transposed) {   // out (16, 16), transposed (16, 8)
    __shared__ alignas(16) short tile[16][24];   // rows of 48 bytes: 8 successive rows lie in different banks
    __shared__ alignas(16) short flipped[16][8];
    const int lane = threadIdx.x, row = lane / 4, col = lane % 4 * 2;

    // Element (r, c) of the 16 x 16 tile is 100 r + c. Matrix i begins at row i % 2 * 8 and column i / 2 * 8.
    u32 m[4];
    for (int i = 0; i < 4; ++i) {
        const int first = (row + i % 2 * 8) * 100 + col + i / 2 * 8;
        m[i] = (u32)first | (u32)(first + 1) << 16;
    }
    // Lane 8 i + r names row r of matrix i.
    stmatrix_x4(&tile[lane / 8 % 2 * 8 + lane % 8][lane / 16 * 8], m);
    // Only the addresses of lanes 0 to 15 count here: columns of matrices 0 and 2 become the 16 rows.
    stmatrix_x2_trans(&flipped[lane % 16][0], m[0], m[2]);
    __syncwarp();

    for (int i = lane; i < 256; i += 32) out[i] = tile[i / 16][i % 16];
    for (int i = lane; i < 128; i += 32) transposed[i] = flipped[i / 8][i % 8];
}
