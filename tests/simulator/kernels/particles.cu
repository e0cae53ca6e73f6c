// An array of structs with padding, moved as whole structs.
struct Particle {
    float3 position;
    char kind;   // three bytes of padding follow
    float3 velocity;
    float mass;
};

__device__ float3 moved(float3 p, float3 v, float dt) {
    return make_float3(p.x + v.x * dt, p.y + v.y * dt, p.z + v.z * dt);
}

__global__ void particles(Particle* all, float dt, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Particle p = all[i];
    if (p.kind == 1) p.position = moved(p.position, p.velocity, dt);
    all[i] = p;
}
