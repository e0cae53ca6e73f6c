// A step of k-means on whole numbers: points add to the nearest centre's sum, and the last block divides.
__global__ void kmeans_step(const int2* points, int2* centers, int* sums, unsigned* arrived, unsigned char* which,
                            int n, int k) {
    __shared__ int part[8][3];
    __shared__ int2 center[8];
    __shared__ bool last;
    int tid = threadIdx.x;
    if (tid < k) {
        center[tid] = centers[tid];
        for (int j = 0; j < 3; j++) part[tid][j] = 0;
    }
    __syncthreads();  // centres
    int i = blockIdx.x * blockDim.x + tid;
    if (i < n) {
        int2 p = points[i];
        int best = 0, distance = 0x7FFFFFFF;
        for (int c = 0; c < k; c++) {
            int dx = p.x - center[c].x, dy = p.y - center[c].y;
            if (dx * dx + dy * dy < distance) {
                distance = dx * dx + dy * dy;
                best = c;
            }
        }
        which[i] = (unsigned char)best;
        atomicAdd(&part[best][0], p.x);
        atomicAdd(&part[best][1], p.y);
        atomicAdd(&part[best][2], 1);
    }
    __syncthreads();  // the block's sums
    if (tid < 3 * k) atomicAdd(&sums[tid], part[tid / 3][tid % 3]);
    __threadfence();  // before the count
    __syncthreads();  // all sums are added
    if (tid == 0) {
        last = atomicAdd(arrived, 1u) == gridDim.x - 1;
        __threadfence();  // after the count
    }
    __syncthreads();  // last or not
    if (last && tid < k) {
        int count = sums[3 * tid + 2];
        if (count > 0) centers[tid] = make_int2(sums[3 * tid] / count, sums[3 * tid + 1] / count);
    }
}
