// A 3 x 3 convolution of images with channels; the filter is in dynamic shared memory.
__global__ void conv_channels(const float* in, const float* weights, float* out, int channels, int height, int width) {
    extern __shared__ float w[];
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int filter = blockIdx.z;
    int t = threadIdx.y * blockDim.x + threadIdx.x;
    for (int i = t; i < channels * 9; i += blockDim.x * blockDim.y) {
        w[i] = weights[filter * channels * 9 + i];
    }
    __syncthreads();
    if (x >= width - 2 || y >= height - 2) return;
    float sum = 0;
    for (int c = 0; c < channels; ++c) {
        for (int dy = 0; dy < 3; ++dy) {
            for (int dx = 0; dx < 3; ++dx) {
                sum += in[(c * height + y + dy) * width + x + dx] * w[c * 9 + dy * 3 + dx];
            }
        }
    }
    out[(filter * (height - 2) + y) * (width - 2) + x] = sum;
}
