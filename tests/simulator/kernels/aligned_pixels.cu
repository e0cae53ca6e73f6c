// A struct aligned to 16 bytes that ends in padding, read and written as float4 is.
struct __align__(16) Pixel {
    float r, g, b;
};

__global__ void aligned_pixels(const Pixel* in, float4* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        Pixel p = in[i];
        float grey = 0.299f * p.r + 0.587f * p.g + 0.114f * p.b;
        out[i] = make_float4(p.r, p.g, p.b, grey);
    }
}
