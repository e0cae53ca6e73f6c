// A grid and blocks of three dimensions.
__global__ void volume_index(int* volume, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < nx && y < ny && z < nz) {
        volume[(z * ny + y) * nx + x] = x + 100 * y + 10000 * z;
    }
}
