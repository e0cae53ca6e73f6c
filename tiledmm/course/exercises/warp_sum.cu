// tiledmm: grid=(M+3)/4 block=128
__global__ void warp_sum(const float* A, float* S, int M, int N) {
    int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32;  // a warp works on one row
    if (row >= M) return;                                                  // the whole warp leaves
    float sum = 0;
    for (int col = lane; col < N; col += 32) sum += A[row * N + col];
    //[start]
    // TODO: add the sums of the 32 lanes with shuffles. Here, the sums go through shared memory.
    __shared__ float part[128];
    part[threadIdx.x] = sum;
    __syncwarp();
    if (lane == 0)
        for (int i = 1; i < 32; ++i) sum += part[threadIdx.x + i];
    //[solution]
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    //[end]
    if (lane == 0) S[row] = sum;
}
