// tiledmm: grid=M block=128
__global__ void row_sums(const float* A, float* S, int M, int N) {
    __shared__ float part[128];
    int row = blockIdx.x, tx = threadIdx.x;
    //[start]
    // TODO: let all 128 threads add elements, and then add their 128 sums by a reduction in shared memory.
    // Here, one thread adds the whole row, and 127 threads do nothing.
    part[tx] = 0;
    if (tx == 0) {
        for (int col = 0; col < N; ++col) part[0] += A[row * N + col];
        S[row] = part[0];
    }
    //[solution]
    float sum = 0;
    for (int col = tx; col < N; col += 128) sum += A[row * N + col];
    part[tx] = sum;
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();  // all sums of the last step are written
        if (tx < half) part[tx] += part[tx + half];
    }
    if (tx == 0) S[row] = part[0];
    //[end]
}
