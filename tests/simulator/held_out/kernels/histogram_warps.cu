// A histogram for each warp in dynamic shared memory; they are added up at the end.
__global__ void histogram_warps(const unsigned char* data, unsigned* bins, int n, int nbins) {
    extern __shared__ unsigned parts[];
    int warps = blockDim.x / 32;
    for (int i = threadIdx.x; i < warps * nbins; i += blockDim.x) {
        parts[i] = 0;
    }
    __syncthreads();  // zeros
    unsigned* mine = parts + (threadIdx.x / 32) * nbins;
    const uchar4* quads = reinterpret_cast<const uchar4*>(data);
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += stride) {
        uchar4 q = quads[i];
        atomicAdd(&mine[q.x % nbins], 1u);
        atomicAdd(&mine[q.y % nbins], 1u);
        atomicAdd(&mine[q.z % nbins], 1u);
        atomicAdd(&mine[q.w % nbins], 1u);
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        atomicAdd(&mine[data[n / 4 * 4 + threadIdx.x] % nbins], 1u);
    }
    __syncthreads();  // counts
    for (int b = threadIdx.x; b < nbins; b += blockDim.x) {
        unsigned total = 0;
        for (int w = 0; w < warps; ++w) total += parts[w * nbins + b];
        if (total) atomicAdd(&bins[b], total);
    }
}
