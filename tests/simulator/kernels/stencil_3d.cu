// Seven points; a thread walks along z and keeps three planes in registers.
__global__ void stencil_3d(const float* in, float* out, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    int plane = nx * ny;
    int at = y * nx + x;
    float below = in[at];
    float here = in[at + plane];
    for (int z = 1; z < nz - 1; ++z) {
        float above = in[at + (z + 1) * plane];
        int c = at + z * plane;
        out[c] = below + above + in[c - 1] + in[c + 1] + in[c - nx] + in[c + nx] - 6.0f * here;
        below = here;
        here = above;
    }
}
