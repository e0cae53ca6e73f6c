// The largest number of each 2x2 window of each channel and its place in the window; the last window may be cut off.
__global__ void maxpool_channels(const float* x, float* y, unsigned char* where, int channels, int height, int width) {
    int outHeight = (height + 1) / 2;
    int outWidth = (width + 1) / 2;
    int ox = blockIdx.x * blockDim.x + threadIdx.x;
    int oy = blockIdx.y * blockDim.y + threadIdx.y;
    int channel = blockIdx.z * blockDim.z + threadIdx.z;
    if (ox >= outWidth || oy >= outHeight || channel >= channels) return;
    const float* plane = x + (size_t)channel * height * width;
    float best = -INFINITY;
    int place = 0;
    for (int dy = 0; dy < 2; dy++) {
        for (int dx = 0; dx < 2; dx++) {
            int iy = 2 * oy + dy, ix = 2 * ox + dx;
            if (iy >= height || ix >= width) continue;
            float v = plane[iy * width + ix];
            if (v > best) {
                best = v;
                place = 2 * dy + dx;
            }
        }
    }
    int at = (channel * outHeight + oy) * outWidth + ox;
    y[at] = best;
    where[at] = (unsigned char)place;
}
