// The rows of a separable filter; the weights come as an array.
__global__ void convolution_rows(const float* in, const float* weights, float* out, int width, int radius) {
    extern __shared__ float row[];
    const float* line = in + blockIdx.y * width;
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int first = blockIdx.x * blockDim.x - radius;
    for (int i = threadIdx.x; i < blockDim.x + 2 * radius; i += blockDim.x) {
        int sx = first + i;
        row[i] = sx >= 0 && sx < width ? line[sx] : 0.0f;
    }
    __syncthreads();
    if (x < width) {
        float sum = 0.0f;
        for (int k = 0; k <= 2 * radius; ++k) sum += weights[k] * row[threadIdx.x + k];
        out[blockIdx.y * width + x] = sum;
    }
}
