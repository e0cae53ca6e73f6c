// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16
__global__ void integer_residues(const signed char* A0, const signed char* A1, const signed char* B0,
                                 const signed char* B1, int* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    int r0 = 0, r1 = 0;  // congruent to the result modulo 255 and 256; tensor cores can add these, too
    for (int k = 0; k < K; ++k) {
        r0 += A0[row * K + k] * B0[k * N + col];
        r1 += A1[row * K + k] * B1[k * N + col];
    }
    //[start]
    // TODO: find the integer x from -32639 to 32640 that is congruent to r0 modulo 255 and to r1 modulo 256.
    int x = r0;
    //[solution]
    int t = ((r0 - r1) % 255 + 255) % 255;  // % may be negative in C
    int x = ((r1 + 256 * t) % 65280 + 65280) % 65280;
    if (x > 32640) x -= 65280;
    //[end]
    C[row * N + col] = x;
}
