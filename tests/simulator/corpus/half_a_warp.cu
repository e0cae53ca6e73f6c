// The shuffles begin at 8: lanes 16 to 31 never give what they have.
__global__ void dot_half_warp(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const int row = warp / n, col = warp % n;
    if (row >= m) return;
    float sum = 0.f;
    for (int i = lane; i < k; i += 32) sum += a[row * k + i] * b[i * n + col];
    for (int offset = 8; offset > 0; offset >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0) c[row * n + col] = sum;
}
