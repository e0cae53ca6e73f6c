// Escape times: threads leave the loop at different times.
__global__ void mandelbrot(int* image, int width, int height, float left, float top, float step, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float cr = left + x * step, ci = top + y * step;
    float zr = 0.0f, zi = 0.0f;
    int count = 0;
    while (count < limit && zr * zr + zi * zi <= 4.0f) {
        float next = zr * zr - zi * zi + cr;
        zi = 2.0f * zr * zi + ci;
        zr = next;
        count++;
    }
    image[y * width + x] = count;
}
