// The three nearest points to each query, by distances, a warp's candidates and marks in dynamic shared memory.
__global__ void carved_nearest(const int2* points, const int2* queries, int* nearest, int n) {
    extern __shared__ __align__(16) unsigned char raw[];
    int warps = blockDim.x / 32;
    int* distance = reinterpret_cast<int*>(raw);
    int* candidate = distance + n;
    unsigned char* gone = reinterpret_cast<unsigned char*>(candidate + warps);
    int2 q = queries[blockIdx.x];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int dx = points[i].x - q.x, dy = points[i].y - q.y;
        distance[i] = dx * dx + dy * dy;
        gone[i] = 0;
    }
    __syncthreads();  // distances
    for (int round = 0; round < 3; round++) {
        int best = -1;
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            if (!gone[i] && (best < 0 || distance[i] < distance[best])) best = i;
        }
        for (int offset = 16; offset > 0; offset /= 2) {
            int other = __shfl_down_sync(0xFFFFFFFFu, best, offset);
            if (other < 0) continue;
            if (best < 0 || distance[other] < distance[best] ||
                (distance[other] == distance[best] && other < best)) best = other;
        }
        if (threadIdx.x % 32 == 0) candidate[threadIdx.x / 32] = best;
        __syncthreads();  // candidates
        if (threadIdx.x == 0) {
            int winner = candidate[0];
            for (int w = 1; w < warps; w++) {
                int other = candidate[w];
                if (other < 0) continue;
                if (winner < 0 || distance[other] < distance[winner] ||
                    (distance[other] == distance[winner] && other < winner)) winner = other;
            }
            nearest[blockIdx.x * 3 + round] = winner;
            gone[winner] = 1;
        }
        __syncthreads();  // marked
    }
}
