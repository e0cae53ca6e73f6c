// A step of the game of life on a torus. A block has a tile with a border of one.
__global__ void life_step(const unsigned char* now, unsigned char* next, int width, int height) {
    __shared__ unsigned char cells[10][18];
    int threads = blockDim.x * blockDim.y;
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < 10 * 18; i += threads) {
        int cx = i % 18, cy = i / 18;
        int gx = (blockIdx.x * 16 + cx + width - 1) % width;
        int gy = (blockIdx.y * 8 + cy + height - 1) % height;
        cells[cy][cx] = now[gy * width + gx];
    }
    __syncthreads();
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x < width && y < height) {
        int around = 0;
        for (int dy = 0; dy < 3; dy++) {
            for (int dx = 0; dx < 3; dx++) around += cells[threadIdx.y + dy][threadIdx.x + dx];
        }
        unsigned char alive = cells[threadIdx.y + 1][threadIdx.x + 1];
        around -= alive;
        next[y * width + x] = around == 3 || (alive && around == 2);
    }
}
