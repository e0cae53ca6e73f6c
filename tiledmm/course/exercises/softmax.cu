// tiledmm: grid=(M+3)/4 block=128
__global__ void softmax(const float* A, float* P, int M, int N) {
    int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32;  // a warp works on one row
    if (row >= M) return;                                                  // the whole warp leaves
    const float* x = A + row * N;
    //[start]
    // TODO: subtract the row's greatest element before expf, and give the whole sum to all lanes.
    float sum = 0;
    for (int col = lane; col < N; col += 32) sum += expf(30 * x[col]);
    for (int col = lane; col < N; col += 32) P[row * N + col] = expf(30 * x[col]) / sum;
    //[solution]
    float most = -INFINITY, sum = 0;
    for (int col = lane; col < N; col += 32) most = fmaxf(most, x[col]);
    for (int offset = 16; offset > 0; offset /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, offset));
    for (int col = lane; col < N; col += 32) sum += expf(30 * (x[col] - most));
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    for (int col = lane; col < N; col += 32) P[row * N + col] = expf(30 * (x[col] - most)) / sum;
    //[end]
}
