// A device function that calls itself.
__device__ int fibonacci_of(int n) {
    if (n < 2) return n;
    return fibonacci_of(n - 1) + fibonacci_of(n - 2);
}

__global__ void fibonacci(int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fibonacci_of(i % 12);
}
