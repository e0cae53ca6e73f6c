// y += A x with A as sorted triples: a warp adds up the triples of a row, and its last lane adds to y.
__global__ void coo_spmv(const int* rows, const int* columns, const float* values, const float* x, float* y, int count) {
    const unsigned ALL = 0xffffffffu;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31;
    int row = -1;
    float sum = 0.0f;
    if (i < count) {
        row = rows[i];
        sum = values[i] * x[columns[i]];
    }
    for (int offset = 1; offset < 32; offset <<= 1) {
        int there = __shfl_up_sync(ALL, row, offset);
        float part = __shfl_up_sync(ALL, sum, offset);
        if (lane >= offset && there == row) sum += part;
    }
    int next = __shfl_down_sync(ALL, row, 1);
    bool last = lane == 31 || next != row;
    if (row >= 0 && last) atomicAdd(&y[row], sum);
}
