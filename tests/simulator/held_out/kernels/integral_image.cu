// Sums of all pixels above and to the left, in one block: a warp adds along a row, then a thread down a column.
#define WIDE 40
#define HIGH 20

__global__ void integral_image(const int* image, int* sums, int width, int height) {
    __shared__ int s[HIGH][WIDE];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int y = warp; y < height; y += warps) {
        int before = 0;
        for (int x0 = 0; x0 < width; x0 += 32) {
            int x = x0 + lane;
            int v = x < width ? image[y * width + x] : 0;
            for (int offset = 1; offset < 32; offset *= 2) {
                int left = __shfl_up_sync(0xffffffffu, v, offset);
                if (lane >= offset) v += left;
            }
            v += before;
            if (x < width) s[y][x] = v;
            before = __shfl_sync(0xffffffffu, v, 31);
        }
    }
    __syncthreads();
    for (int x = threadIdx.x; x < width; x += blockDim.x) {
        int sum = 0;
        for (int y = 0; y < height; y++) {
            sum += s[y][x];
            sums[y * width + x] = sum;
        }
    }
}
