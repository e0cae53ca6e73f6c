// The loss of rows with labels and its gradients: a warp per row; rows with a negative label are left out.
__global__ void cross_entropy(const float* logits, const int* labels, float* grad, float* loss, int* used, int rows,
                              int classes) {
    int lane = threadIdx.x % 32;
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;
    const float* in = logits + row * classes;
    int label = labels[row];
    if (label < 0) {
        for (int c = lane; c < classes; c += 32) grad[row * classes + c] = 0.0f;
        return;
    }
    float top = -INFINITY;
    for (int c = lane; c < classes; c += 32) top = fmaxf(top, in[c]);
    for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, offset));
    float sum = 0.0f;
    for (int c = lane; c < classes; c += 32) sum += expf(in[c] - top);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
    for (int c = lane; c < classes; c += 32) grad[row * classes + c] = expf(in[c] - top) / sum - (c == label);
    if (lane == 0) {
        atomicAdd(loss, logf(sum) + top - in[label]);
        atomicAdd(used, 1);
    }
}
