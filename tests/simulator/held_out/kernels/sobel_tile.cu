// The strength of edges in a grey image, clamped to a byte; each block loads its pixels and a border of one.
__global__ void sobel_tile(const unsigned char* in, unsigned char* out, int width, int height) {
    __shared__ short tile[10][19];
    int left = blockIdx.x * 16 - 1, top = blockIdx.y * 8 - 1;
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 10 * 18; i += 128) {
        int x = min(max(left + i % 18, 0), width - 1), y = min(max(top + i / 18, 0), height - 1);
        tile[i / 18][i % 18] = in[y * width + x];
    }
    __syncthreads();
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= width || y >= height) return;
    const short(*p)[19] = &tile[threadIdx.y];
    int c = threadIdx.x;
    int gx = p[0][c + 2] + 2 * p[1][c + 2] + p[2][c + 2] - p[0][c] - 2 * p[1][c] - p[2][c];
    int gy = p[2][c] + 2 * p[2][c + 1] + p[2][c + 2] - p[0][c] - 2 * p[0][c + 1] - p[0][c + 2];
    out[y * width + x] = (unsigned char)min(abs(gx) + abs(gy), 255);
}
