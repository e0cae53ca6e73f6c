// Why does this work for 1024 and crash for 1000?
__global__ void MatrixMul(float *a, float *b, float *c, int M, int N, int K)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    float tmp = 0;
    for (int k = 0; k < K; k++)
        tmp += a[row * K + k] * b[k * N + col];
    c[row * N + col] = tmp;
}
