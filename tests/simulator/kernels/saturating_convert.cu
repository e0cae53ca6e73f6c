// Conversions to int saturate on a GPU, and NaN becomes 0.
__global__ void saturating_convert(const float* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) out[n] = (int)1e20f;
    if (i < n) out[i] = (int)in[i];
}
