// tiledmm: grid=(M+3)/4 block=128
__global__ void shuffle_mask(const float* A, float* S, int M, int N) {
    int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32;  // a warp works on one row
    if (row >= M) return;                                                  // the whole warp leaves
    float total = 0;
    //[start]
    for (int col = lane; col < N; col += 32) {
        float x = A[row * N + col] * A[row * N + col];
    //[solution]
    for (int first = 0; first < N; first += 32) {  // all lanes run each step, also those that have no element left
        int col = first + lane;
        float x = col < N ? A[row * N + col] * A[row * N + col] : 0;
    //[end]
        for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffff, x, offset);
        total += x;  // the sum of 32 squares, in each lane
    }
    if (lane == 0) S[row] = total;
}
