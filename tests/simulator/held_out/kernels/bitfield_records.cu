// Records of three bit-fields: sums of the weights of each kind, the smallest step, and the records marked by weight.
struct Record {
    unsigned kind : 3;
    unsigned weight : 13;
    int step : 16;
};

__global__ void bitfield_records(const Record* in, Record* out, unsigned* weights, int* smallest, int n) {
    __shared__ unsigned sums[6];
    __shared__ int low;
    if (threadIdx.x < 6) sums[threadIdx.x] = 0;
    if (threadIdx.x == 0) low = 0x7FFFFFFF;
    __syncthreads();  // zeros
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        Record r = in[i];
        if (r.kind < 6) atomicAdd(&sums[r.kind], r.weight);
        atomicMin(&low, r.step);
        r.kind = r.weight >= 4096 ? 7 : 0;
        out[i] = r;
    }
    __syncthreads();  // sums
    if (threadIdx.x < 6) atomicAdd(&weights[threadIdx.x], sums[threadIdx.x]);
    if (threadIdx.x == 0) atomicMin(smallest, low);
}
