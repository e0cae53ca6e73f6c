// A 5 x 5 filter whose weights are in constant memory, on a tile with a border of two. Outside the image is zero.
#define BX 16
#define BY 8
#define R 2

__constant__ float weights[2 * R + 1][2 * R + 1] = {
    {1, 2, 3, 2, 1}, {2, -4, 6, 4, -2}, {3, 6, 9, -6, 3}, {2, 4, 6, 4, -7}, {-1, 2, 3, 5, 1},
};

__global__ void conv5_constant(const float* image, float* out, int width, int height) {
    __shared__ float tile[BY + 2 * R][BX + 2 * R];
    int x0 = blockIdx.x * BX - R, y0 = blockIdx.y * BY - R;
    for (int ty = threadIdx.y; ty < BY + 2 * R; ty += BY) {
        for (int tx = threadIdx.x; tx < BX + 2 * R; tx += BX) {
            int x = x0 + tx, y = y0 + ty;
            bool inside = x >= 0 && x < width && y >= 0 && y < height;
            tile[ty][tx] = inside ? image[y * width + x] : 0.0f;
        }
    }
    __syncthreads();
    int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int i = 0; i <= 2 * R; i++) {
        for (int j = 0; j <= 2 * R; j++) sum += weights[i][j] * tile[threadIdx.y + i][threadIdx.x + j];
    }
    out[y * width + x] = sum;
}
