// Two buffers filled by cp.async in inline PTX, 16 bytes a copy.
#define T 16

__device__ void copy16(float* to, const float* from) {
    unsigned int address = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(address), "l"(from));
}

__device__ void load_tiles(float (*As)[T], float (*Bs)[T], const float* A, const float* B, int N, int K) {
    int r = threadIdx.x / 4, c = threadIdx.x % 4 * 4;   // 64 threads copy 16 rows of four float4
    copy16(&As[r][c], A + r * K + c);
    copy16(&Bs[r][c], B + r * N + c);
    asm volatile("cp.async.commit_group;\n" ::);
}

__global__ void sgemm_cp_async(const float* A, const float* B, float* C, int N, int K) {
    __shared__ __align__(16) float As[2][T][T];
    __shared__ __align__(16) float Bs[2][T][T];
    A += blockIdx.y * T * K;
    B += blockIdx.x * T;
    int row = threadIdx.x / 4, col = threadIdx.x % 4 * 4;
    float acc[4] = {};
    load_tiles(As[0], Bs[0], A, B, N, K);
    int steps = K / T;
    for (int s = 0; s < steps; ++s) {
        if (s + 1 < steps) {
            load_tiles(As[(s + 1) & 1], Bs[(s + 1) & 1], A + (s + 1) * T, B + (s + 1) * T * N, N, K);
            asm volatile("cp.async.wait_group 1;\n" ::);
        } else {
            asm volatile("cp.async.wait_group 0;\n" ::);
        }
        __syncthreads();
        for (int k = 0; k < T; ++k) {
            float a = As[s & 1][row][k];
            for (int j = 0; j < 4; ++j) acc[j] += a * Bs[s & 1][k][col + j];
        }
        __syncthreads();
    }
    for (int j = 0; j < 4; ++j) C[(blockIdx.y * T + row) * N + blockIdx.x * T + col + j] = acc[j];
}
