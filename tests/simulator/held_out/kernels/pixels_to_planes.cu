// Takes red, green and blue apart: a block for 64 pixels, which it reads as groups of four numbers.
#define PIXELS 64

__global__ void pixels_to_planes(const float* rgb, float* planes, int n) {
    __shared__ __align__(16) float part[3 * PIXELS];
    int tid = threadIdx.x, first = blockIdx.x * PIXELS;
    int numbers = 3 * min(PIXELS, n - first);
    if (tid < numbers / 4)
        reinterpret_cast<float4*>(part)[tid] = reinterpret_cast<const float4*>(rgb + 3 * first)[tid];
    int rest = numbers / 4 * 4 + tid;
    if (rest < numbers) part[rest] = rgb[3 * first + rest];
    __syncthreads();  // pixels are here
    if (first + tid < n)
        for (int c = 0; c < 3; c++) planes[c * n + first + tid] = part[3 * tid + c];
}
