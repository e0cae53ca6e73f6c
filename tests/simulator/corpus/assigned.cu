__global__ void MatMul(const float *M, const float *N, float *P, int rows, int cols, int width)
{
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if ((r < rows) && (c < cols)) {
        float Pvalue = 0;
        for (int k = 0; k < width; ++k)
            Pvalue = M[r * width + k] * N[k * cols + c];   // = in place of +=
        P[r * cols + c] = Pvalue;
    }
}
