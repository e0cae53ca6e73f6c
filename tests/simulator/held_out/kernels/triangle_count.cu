// Counts triangles: a warp per edge looks for the neighbours of one end among the sorted neighbours of the other.
__device__ bool contains(const int* list, int size, int wanted) {
    int low = 0, high = size;
    while (low < high) {
        int middle = (low + high) / 2;
        if (list[middle] < wanted) low = middle + 1;
        else high = middle;
    }
    return low < size && list[low] == wanted;
}

__global__ void triangle_count(const int* starts, const int* neighbours, const int2* edges, int* corners, int count) {
    int lane = threadIdx.x % 32;
    int e = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (e >= count) return;
    int u = edges[e].x, v = edges[e].y;
    int number = 0;
    for (int i = starts[u] + lane; i < starts[u + 1]; i += 32) {
        if (contains(neighbours + starts[v], starts[v + 1] - starts[v], neighbours[i])) {
            number++;
            atomicAdd(&corners[neighbours[i]], 1);
        }
    }
    number = __reduce_add_sync(0xFFFFFFFFu, number);
    if (lane == 0) {
        atomicAdd(&corners[u], number);
        atomicAdd(&corners[v], number);
    }
}
