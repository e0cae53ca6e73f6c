// A step of all-pairs shortest paths: paths by way of node k.
__global__ void floyd_warshall(int* dist, int n, int k) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y;
    if (j >= n || i == k || j == k) return;   // row and column k stay as they are
    int through = dist[i * n + k] + dist[k * n + j];
    if (through < dist[i * n + j]) dist[i * n + j] = through;
}
