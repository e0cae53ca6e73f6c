// Horner's scheme with coefficients in constant memory.
__constant__ float coefficients[5] = {1.0f, -2.0f, 0.5f, 3.0f, -0.25f};

__global__ void polynomial(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float sum = coefficients[4];
        for (int k = 3; k >= 0; k--) sum = sum * x[i] + coefficients[k];
        y[i] = sum;
    }
}
