// out[c][a][b] = in[a][b][c]: threads of a block lie along c and b, through a tile, with one a for each z.
#define T 8

__global__ void permute_3d(const float* in, float* out, int A, int B, int C) {
    __shared__ float tile[2][T][T + 1];
    int z = threadIdx.z;
    int a = blockIdx.z * 2 + z;
    int b = blockIdx.y * T + threadIdx.y, c = blockIdx.x * T + threadIdx.x;
    if (a < A && b < B && c < C) tile[z][threadIdx.y][threadIdx.x] = in[(a * B + b) * C + c];
    __syncthreads();
    int to_b = blockIdx.y * T + threadIdx.x, to_c = blockIdx.x * T + threadIdx.y;
    if (a < A && to_b < B && to_c < C) out[(to_c * A + a) * B + to_b] = tile[z][threadIdx.x][threadIdx.y];
}
