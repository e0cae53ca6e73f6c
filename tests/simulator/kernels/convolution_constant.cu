// A filter in constant memory, which a host would copy there; the image's border counts as zero.
#define R 2
__constant__ float filter[2 * R + 1][2 * R + 1] = {
    {1, 4, 6, 4, 1}, {4, 16, 24, 16, 4}, {6, 24, 36, 24, 6}, {4, 16, 24, 16, 4}, {1, 4, 6, 4, 1},
};

__global__ void convolution_constant(const float* in, float* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int dy = -R; dy <= R; dy++) {
        for (int dx = -R; dx <= R; dx++) {
            int sx = x + dx, sy = y + dy;
            if (sx >= 0 && sx < width && sy >= 0 && sy < height) sum += filter[dy + R][dx + R] * in[sy * width + sx];
        }
    }
    out[y * width + x] = sum / 256.0f;
}
