// Sums of rows of a table, a bag of indices for each: four columns at a time; negative indices are padding.
__global__ void embedding_bag(const float* table, const int* indices, const int* offsets, float* out, int bags,
                              int width) {
    int bag = blockIdx.x * blockDim.y + threadIdx.y;
    if (bag >= bags) return;
    for (int column = threadIdx.x * 4; column < width; column += blockDim.x * 4) {
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int i = offsets[bag]; i < offsets[bag + 1]; i++) {
            int row = indices[i];
            if (row < 0) continue;
            float4 v = *reinterpret_cast<const float4*>(table + row * width + column);
            sum.x += v.x;
            sum.y += v.y;
            sum.z += v.z;
            sum.w += v.w;
        }
        *reinterpret_cast<float4*>(out + bag * width + column) = sum;
    }
}
