// A sparse matrix of 4 x 4 blocks times a vector: four threads per row of blocks, each for one row.
__global__ void bsr_rows(const float4* blocks, const int* starts, const int* cols, const float4* x, float* y,
                         int rows) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int blockRow = t / 4, r = t % 4;
    if (blockRow >= rows) return;
    float sum = 0.0f;
    for (int b = starts[blockRow]; b < starts[blockRow + 1]; b++) {
        float4 a = blocks[b * 4 + r];
        float4 v = x[cols[b]];
        sum += a.x * v.x + a.y * v.y + a.z * v.z + a.w * v.w;
    }
    y[blockRow * 4 + r] = sum;
}
