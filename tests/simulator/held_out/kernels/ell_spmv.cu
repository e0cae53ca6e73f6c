// y = A x with A in ELL form: the k-th number of every row, then the next of every row; column -1 is nothing.
__global__ void ell_spmv(const int* columns, const float* values, const float* x, float* y, int rows, int width,
                         int pitch) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float sum = 0.0f;
        for (int k = 0; k < width; k++) {
            int column = columns[k * pitch + row];
            if (column >= 0) sum += values[k * pitch + row] * x[column];
        }
        y[row] = sum;
    }
}
