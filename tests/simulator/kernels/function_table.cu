// Device functions called through pointers.
__device__ float twice(float x) { return 2.0f * x; }
__device__ float squared(float x) { return x * x; }
__device__ float negated(float x) { return -x; }

typedef float (*Function)(float);

__device__ Function functions[3] = {twice, squared, negated};

__global__ void function_table(const float* in, const int* which, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        Function f = functions[which[i]];
        out[i] = f(in[i]);
    }
}
