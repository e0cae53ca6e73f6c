// Bounding boxes of groups of points: a warp for each group.
struct Box {
    float low[3];
    float high[3];
};

__global__ void bounding_boxes(const float* points, const int* begin, Box* boxes, int groups) {
    int group = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (group >= groups) return;
    Box box;
    for (int a = 0; a < 3; ++a) {
        box.low[a] = INFINITY;
        box.high[a] = -INFINITY;
    }
    for (int i = begin[group] + lane; i < begin[group + 1]; i += 32) {
        for (int a = 0; a < 3; ++a) {
            box.low[a] = fminf(box.low[a], points[3 * i + a]);
            box.high[a] = fmaxf(box.high[a], points[3 * i + a]);
        }
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        for (int a = 0; a < 3; a++) {
            box.low[a] = fminf(box.low[a], __shfl_down_sync(0xffffffffu, box.low[a], offset));
            box.high[a] = fmaxf(box.high[a], __shfl_down_sync(0xffffffffu, box.high[a], offset));
        }
    }
    if (lane == 0) boxes[group] = box;
}
