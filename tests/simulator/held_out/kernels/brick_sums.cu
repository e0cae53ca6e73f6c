// Sums of bricks of 4x4x4 of a volume: a block of as many threads for each; bricks at the ends are cut off.
__global__ void brick_sums(const int* volume, int* sums, int nx, int ny, int nz) {
    __shared__ int part[4][4][4];
    int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    int x = blockIdx.x * 4 + tx, y = blockIdx.y * 4 + ty, z = blockIdx.z * 4 + tz;
    bool inside = x < nx && y < ny && z < nz;
    part[tz][ty][tx] = inside ? volume[(z * ny + y) * nx + x] : 0;
    __syncthreads();  // the brick
    if (tz == 0) {
        part[0][ty][tx] += part[1][ty][tx] + part[2][ty][tx] + part[3][ty][tx];
    }
    __syncthreads();  // layers
    if (tz == 0 && ty == 0) {
        part[0][0][tx] += part[0][1][tx] + part[0][2][tx] + part[0][3][tx];
    }
    __syncthreads();  // lines
    if (tx == 0 && ty == 0 && tz == 0) {
        int brick = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        sums[brick] = part[0][0][0] + part[0][0][1] + part[0][0][2] + part[0][0][3];
    }
}
