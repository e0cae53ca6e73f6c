// y = A x with eight bits, four products at a time: a warp for each row, x in shared memory.
__global__ void dp4a_matvec(const signed char* A, const signed char* x, int* y, int rows, int columns) {
    __shared__ int xs[64];
    int words = columns / 4;
    for (int i = threadIdx.x; i < words; i += blockDim.x) xs[i] = reinterpret_cast<const int*>(x)[i];
    __syncthreads();
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    const int* mine = reinterpret_cast<const int*>(A + row * columns);
    int sum = 0;
    for (int i = lane; i < words; i += 32) sum = __dp4a(mine[i], xs[i], sum);
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (lane == 0) y[row] = sum;
}
