// Haar transform of 128 whole numbers for each block: sums go on to the next level, differences are out.
#define N 128

__global__ void haar_levels(const int* x, int* out) {
    __shared__ int s[N];
    int t = threadIdx.x;
    for (int i = t; i < N; i += blockDim.x) s[i] = x[blockIdx.x * N + i];
    __syncthreads();  // numbers are here
    for (int half = N / 2; half > 0; half /= 2) {
        int sum = 0, difference = 0;
        if (t < half) {
            sum = s[2 * t] + s[2 * t + 1];
            difference = s[2 * t] - s[2 * t + 1];
        }
        __syncthreads();  // pairs are read
        if (t < half) {
            s[t] = sum;
            out[blockIdx.x * N + half + t] = difference;
        }
        __syncthreads();  // sums are stored
    }
    if (t == 0) out[blockIdx.x * N] = s[0];
}
