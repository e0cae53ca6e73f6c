// tiledmm: grid=1 block=32
__global__ void banks(const float* A, float* S, int N) {
    __shared__ float tile[256];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) tile[i] = A[i];
    __syncthreads();
    float sum = 0;
    sum += tile[2 * lane];
    sum += tile[3 * lane];
    sum += tile[8 * lane];
    S[lane] = sum;
}
