// The nearest sphere along a ray through each pixel, and where the ray meets it.
struct Sphere {
    float x, y, z, r;
};

struct Hit {
    float depth;
    int id;
};

__device__ bool meets(const Sphere& s, float px, float py, float* depth) {
    float dx = s.x - px, dy = s.y - py;
    float under = s.r * s.r - dx * dx - dy * dy;
    if (under < 0.0f) return false;
    *depth = s.z - sqrtf(under);
    return true;
}

__global__ void ray_spheres(const Sphere* spheres, int count, float* depth, int* id, int width, int height) {
    __shared__ Sphere tile[16];
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    int tid = threadIdx.y * blockDim.x + threadIdx.x;
    Hit best = {INFINITY, -1};
    for (int first = 0; first < count; first += 16) {
        if (tid < 16 && first + tid < count) tile[tid] = spheres[first + tid];
        __syncthreads();  // loaded
        for (int k = 0; k < min(16, count - first); k++) {
            float t;
            if (meets(tile[k], (float)px, (float)py, &t) && t < best.depth) {
                best.depth = t;
                best.id = first + k;
            }
        }
        __syncthreads();  // used
    }
    if (px < width && py < height) {
        depth[py * width + px] = best.depth;
        id[py * width + px] = best.id;
    }
}
