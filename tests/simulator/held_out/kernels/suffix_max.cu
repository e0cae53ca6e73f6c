// The largest of each element and those after it: a thread for each row, from its end.
__global__ void suffix_max(const int* in, int* out, unsigned rows, unsigned columns) {
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    int best = INT_MIN;
    for (unsigned j = columns; j-- > 0;) {
        best = max(best, in[row * columns + j]);
        out[row * columns + j] = best;
    }
}
