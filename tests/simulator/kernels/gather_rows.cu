// Rows of a table, chosen by an index for each output row.
__global__ void gather_rows(const float* table, const int* index, float* out, int width, int rows) {
    int row = blockIdx.x;
    int source = index[row];
    if (source < 0 || source >= rows) return;
    for (int col = threadIdx.x; col < width; col += blockDim.x) {
        out[row * width + col] = table[source * width + col];
    }
}
