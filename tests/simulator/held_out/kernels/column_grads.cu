// Sums over rows of gradients and of gradients times inputs: tiles of 32 columns and 8 threads per column.
__global__ void column_grads(const float* x, const float* dy, float* dw, float* db, int rows, int cols) {
    __shared__ float w[8][33], b[8][33];
    int col = blockIdx.x * 32 + threadIdx.x;
    float sumW = 0.0f, sumB = 0.0f;
    if (col < cols) {
        for (int r = blockIdx.y * 8 + threadIdx.y; r < rows; r += gridDim.y * 8) {
            float g = dy[r * cols + col];
            sumW += g * x[r * cols + col];
            sumB += g;
        }
    }
    w[threadIdx.y][threadIdx.x] = sumW;
    b[threadIdx.y][threadIdx.x] = sumB;
    for (int half = 4; half > 0; half /= 2) {
        __syncthreads();  // halves
        if (threadIdx.y < half) {
            w[threadIdx.y][threadIdx.x] += w[threadIdx.y + half][threadIdx.x];
            b[threadIdx.y][threadIdx.x] += b[threadIdx.y + half][threadIdx.x];
        }
    }
    if (threadIdx.y == 0 && col < cols) {
        atomicAdd(&dw[col], w[0][threadIdx.x]);
        atomicAdd(&db[col], b[0][threadIdx.x]);
    }
}
