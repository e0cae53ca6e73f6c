// Three bytes a pixel in, one out.
__global__ void rgb_to_grey(const uchar3* rgb, unsigned char* grey, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < cols) {
        uchar3 p = rgb[row * cols + col];
        grey[row * cols + col] = (unsigned char)((77 * p.x + 150 * p.y + 29 * p.z) >> 8);
    }
}
