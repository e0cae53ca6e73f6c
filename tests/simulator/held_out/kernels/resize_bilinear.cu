// An image in another size: each pixel is mixed from the four around its place.
__global__ void resize_bilinear(const unsigned char* in, unsigned char* out, int w, int h, int new_w, int new_h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= new_w || y >= new_h) return;
    float fx = (float)x * (w - 1) / (new_w - 1);
    float fy = (float)y * (h - 1) / (new_h - 1);
    int x0 = (int)fx, y0 = (int)fy;
    int x1 = min(x0 + 1, w - 1), y1 = min(y0 + 1, h - 1);
    float dx = fx - x0, dy = fy - y0;
    float top = in[y0 * w + x0] * (1.0f - dx) + in[y0 * w + x1] * dx;
    float bottom = in[y1 * w + x0] * (1.0f - dx) + in[y1 * w + x1] * dx;
    out[y * new_w + x] = (unsigned char)(top * (1.0f - dy) + bottom * dy + 0.5f);
}
