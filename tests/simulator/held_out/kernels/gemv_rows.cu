// y = A x: a block for each row, which loads four numbers at a time; the last one to three go one by one.
__global__ void gemv_rows(const float* __restrict__ A, const float* __restrict__ x, float* y, int columns, int pitch) {
    __shared__ float parts[4];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float* row = A + blockIdx.x * pitch;
    const float4* row4 = reinterpret_cast<const float4*>(row);
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float sum = 0.0f;
    for (int j = threadIdx.x; j < columns / 4; j += blockDim.x) {
        float4 a = row4[j];
        float4 b = x4[j];
        sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
    int rest = columns / 4 * 4 + threadIdx.x;
    if (rest < columns) sum += row[rest] * x[rest];
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (lane == 0) parts[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / 32 ? parts[lane] : 0.0f;
        for (int reach = 2; reach > 0; reach /= 2) {
            sum += __shfl_down_sync(0xffffffffu, sum, reach);
        }
        if (lane == 0) y[blockIdx.x] = sum;
    }
}
