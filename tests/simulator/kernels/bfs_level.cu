// One level of a breadth-first search; a node is claimed by atomicCAS.
__global__ void bfs_level(const int* begins, const int* edges, int* level, int* changed, int depth, int nodes) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes) return;
    if (atomicAdd(&level[node], 0) != depth) return;
    for (int e = begins[node]; e < begins[node + 1]; ++e) {
        if (atomicCAS(&level[edges[e]], -1, depth + 1) == -1) atomicOr(changed, 1);
    }
}
