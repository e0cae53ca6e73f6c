// Right products without host code, whose blocks compute tiles, rows or parts of K in several ways.
#define BM 64
#define BN 64
#define BK 16
// strided thread tiles, 16 x 16 threads
__global__ void strided_tiles(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[BK][BM + 4], Bs[BK][BN + 4];
    int tx = threadIdx.x, ty = threadIdx.y, tid = ty * 16 + tx;
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BM * BK; i += 256) { int r = i / BK, k = i % BK; As[k][r] = row0 + r < M && k0 + k < K ? A[(row0 + r) * K + k0 + k] : 0.f; }
        for (int i = tid; i < BK * BN; i += 256) { int k = i / BN, c = i % BN; Bs[k][c] = col0 + c < N && k0 + k < K ? B[(k0 + k) * N + col0 + c] : 0.f; }
        __syncthreads();
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) acc[i][j] += As[k][ty + 16 * i] * Bs[k][tx + 16 * j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) {
        int r = row0 + ty + 16 * i, c = col0 + tx + 16 * j;
        if (r < M && c < N) C[r * N + c] = acc[i][j];
    }
}
// grouped (Triton-like) order of tiles
__global__ void grouped(const float* A, const float* B, float* C, int M, int N, int K) {
    int gm = (M + 15) / 16, gn = (N + 15) / 16, per = 4 * gn, pid = blockIdx.x, g = pid / per, first = g * 4;
    int size = min(gm - first, 4), pm = first + (pid % per) % size, pn = (pid % per) / size;
    int row = pm * 16 + threadIdx.x / 16, col = pn * 16 + threadIdx.x % 16;
    if (row >= M || col >= N) return;
    float s = 0; for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
// split-K with a constant chunk and atomics
__global__ void chunks(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x, k0 = blockIdx.z * 32;
    if (row >= M || col >= N) return;
    float s = 0; for (int k = k0; k < min(k0 + 32, K); ++k) s += A[row * K + k] * B[k * N + col];
    atomicAdd(&C[row * N + col], s);
}
// persistent: blocks go on by gridDim.x tiles
__global__ void persistent(const float* A, const float* B, float* C, int M, int N, int K) {
    int tn = (N + 15) / 16, tiles = tn * ((M + 15) / 16);
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        int row = t / tn * 16 + threadIdx.y, col = t % tn * 16 + threadIdx.x;
        if (row >= M || col >= N) continue;
        float s = 0; for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
        C[row * N + col] = s;
    }
}
// rows from the end
__global__ void reversed(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = M - 1 - (int)(blockIdx.y * blockDim.y + threadIdx.y), col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < 0 || col >= N) return;
    float s = 0; for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
// result through shared memory, stored in another arrangement
__global__ void staged(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float out[32][33];
    int t = threadIdx.x;
    for (int e = t; e < 1024; e += 128) {
        int row = blockIdx.y * 32 + e / 32, col = blockIdx.x * 32 + e % 32;
        float s = 0;
        if (row < M && col < N) for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
        out[e / 32][e % 32] = s;
    }
    __syncthreads();
    for (int c = t % 32, r = t / 32; r < 32; r += 4)
        if (blockIdx.y * 32 + r < M && blockIdx.x * 32 + c < N) C[(blockIdx.y * 32 + r) * N + blockIdx.x * 32 + c] = out[r][c];
}
// two rows per thread, halves of the tile
__global__ void halves(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float s0 = 0, s1 = 0;
    for (int k = 0; k < K; ++k) {
        if (col < N && row < M) s0 += A[row * K + k] * B[k * N + col];
        if (col < N && row + 16 < M) s1 += A[(row + 16) * K + k] * B[k * N + col];
    }
    if (row < M && col < N) C[row * N + col] = s0;
    if (row + 16 < M && col < N) C[(row + 16) * N + col] = s1;
}
// warps side by side: 4 warps with 32 columns each
__global__ void warps(const float* A, const float* B, float* C, int M, int N, int K) {
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = blockIdx.x * 4 + warp;
    if (row >= M) return;
    for (int col = lane; col < N; col += 32) {
        float s = 0; for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
        C[row * N + col] = s;
    }
}
// 3-D block
__global__ void deep(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    __shared__ float part[4][8][8];
    float s = 0;
    for (int k = threadIdx.z; k < K; k += 4) if (row < M && col < N) s += A[row * K + k] * B[k * N + col];
    part[threadIdx.z][threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.z == 0 && row < M && col < N) C[row * N + col] = part[0][threadIdx.y][threadIdx.x] + part[1][threadIdx.y][threadIdx.x] + part[2][threadIdx.y][threadIdx.x] + part[3][threadIdx.y][threadIdx.x];
}
// a loop over the grid, all matrices by columns
__global__ void colmajor_1d(const double* A, const double* B, double* C, int M, int N, int K) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (size_t)M * N; i += (size_t)gridDim.x * blockDim.x) {
        size_t row = i % M, col = i / M;
        double s = 0; for (int k = 0; k < K; ++k) s += A[k * M + row] * B[col * K + k];
        C[i] = s;
    }
}
