// Causal attention with a running maximum: a thread per query, and keys and values by tiles in shared memory.
__global__ void flash_rows(const float* Q, const float* K, const float* V, float* O, int n, float scale) {
    constexpr int D = 16, T = 16;
    __shared__ float keys[T][D], values[T][D];
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float q[D], o[D];
    float top = -INFINITY, total = 0.0f;
    for (int d = 0; d < D; d++) {
        q[d] = row < n ? Q[row * D + d] * scale : 0.0f;
        o[d] = 0.0f;
    }
    for (int j0 = 0; j0 < n; j0 += T) {
        __syncthreads();  // the last tile is used
        for (int i = threadIdx.x; i < T * D; i += blockDim.x) {
            int j = j0 + i / D;
            keys[i / D][i % D] = j < n ? K[j * D + i % D] : 0.0f;
            values[i / D][i % D] = j < n ? V[j * D + i % D] : 0.0f;
        }
        __syncthreads();  // the tile is loaded
        for (int j = 0; j < T && j0 + j <= row && j0 + j < n; j++) {
            float s = 0.0f;
            for (int d = 0; d < D; d++) s += q[d] * keys[j][d];
            float larger = fmaxf(top, s);
            float keep = expf(top - larger), p = expf(s - larger);
            total = total * keep + p;
            for (int d = 0; d < D; d++) o[d] = o[d] * keep + p * values[j][d];
            top = larger;
        }
    }
    if (row < n) {
        for (int d = 0; d < D; d++) O[row * D + d] = o[d] / total;
    }
}
