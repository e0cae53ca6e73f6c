// Steps of diffusion in a small plate with cold edges, all in shared memory.
#define W 16

__global__ void heat_block(float* plate, int steps, float rate) {
    __shared__ float cells[W + 2][W + 2];
    int x = threadIdx.x + 1;
    int y = threadIdx.y + 1;
    int t = threadIdx.y * W + threadIdx.x;
    for (int i = t; i < (W + 2) * (W + 2); i += W * W) {
        cells[i / (W + 2)][i % (W + 2)] = 0.0f;
    }
    __syncthreads();  // edges
    cells[y][x] = plate[t];
    __syncthreads();  // plate
    for (int s = 0; s < steps; ++s) {
        float change = cells[y - 1][x] + cells[y + 1][x] + cells[y][x - 1] + cells[y][x + 1] - 4 * cells[y][x];
        __syncthreads();  // all have read
        cells[y][x] += rate * change;
        __syncthreads();  // all have written
    }
    plate[t] = cells[y][x];
}
