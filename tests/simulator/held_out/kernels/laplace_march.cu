// A stencil of seven points: a plane in shared memory, the ones below and above in registers.
#define BX 16
#define BY 8

__global__ void laplace_march(const float* in, float* out, int nx, int ny, int nz) {
    __shared__ float plane[BY + 2][BX + 2];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    int x = blockIdx.x * BX + threadIdx.x;
    int y = blockIdx.y * BY + threadIdx.y;
    bool inside = x < nx && y < ny;
    int area = nx * ny;
    int at = y * nx + x;
    float below = 0;
    float here = inside ? in[at] : 0;
    for (int z = 0; z < nz; ++z) {
        float above = inside && z + 1 < nz ? in[at + area] : 0;
        plane[ty][tx] = here;
        if (threadIdx.x == 0) plane[ty][0] = x > 0 && y < ny ? in[at - 1] : 0;
        if (threadIdx.x == BX - 1) plane[ty][BX + 1] = x + 1 < nx && y < ny ? in[at + 1] : 0;
        if (threadIdx.y == 0) plane[0][tx] = y > 0 && x < nx ? in[at - nx] : 0;
        if (threadIdx.y == BY - 1) plane[BY + 1][tx] = y + 1 < ny && x < nx ? in[at + nx] : 0;
        __syncthreads();  // plane
        float sides = plane[ty - 1][tx] + plane[ty + 1][tx] + plane[ty][tx - 1] + plane[ty][tx + 1];
        if (inside) out[at] = below + above + sides - 6 * here;
        __syncthreads();  // all have read
        below = here;
        here = above;
        at += area;
    }
}
