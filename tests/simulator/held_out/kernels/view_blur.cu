// A blur of a part of an image, by views: structures with a pointer, the size, and the distance between rows.
struct View {
    float* data;
    int rows, cols, pitch;
    __device__ float& at(int r, int c) const { return data[r * pitch + c]; }
    __device__ View part(int r, int c, int height, int width) const {
        return View{data + r * pitch + c, height, width, pitch};
    }
};

__global__ void view_blur(float* image, float* out, int rows, int cols, int pitch, int margin) {
    View all = {image, rows, cols, pitch};
    View inner = all.part(margin, margin, rows - 2 * margin, cols - 2 * margin);
    View result = {out, inner.rows, inner.cols, inner.cols};
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= inner.rows || c >= inner.cols) return;
    float sum = 0.0f;
    for (int dr = -1; dr <= 1; dr++)
        for (int dc = -1; dc <= 1; dc++) sum += inner.at(r + dr, c + dc) * ((2 - abs(dr)) * (2 - abs(dc)));
    result.at(r, c) = sum;
}
