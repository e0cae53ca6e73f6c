// Accelerations of bodies that draw each other: a tile of bodies at a time in shared memory. w is the mass.
#define TILE 64

__global__ void nbody_accel(const float4* bodies, float* accel, int n, float soft) {
    __shared__ float4 tile[TILE];
    int i = blockIdx.x * TILE + threadIdx.x;
    float4 me = i < n ? bodies[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int start = 0; start < n; start += TILE) {
        int j = start + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        __syncthreads();  // a tile is here
        for (int k = 0; k < TILE; k++) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            float square = dx * dx + dy * dy + dz * dz + soft;
            float inverse = 1.0f / sqrtf(square);
            float pull = tile[k].w * inverse * inverse * inverse;
            ax += pull * dx;
            ay += pull * dy;
            az += pull * dz;
        }
        __syncthreads();  // a tile is used
    }
    if (i < n) {
        accel[3 * i] = ax;
        accel[3 * i + 1] = ay;
        accel[3 * i + 2] = az;
    }
}
