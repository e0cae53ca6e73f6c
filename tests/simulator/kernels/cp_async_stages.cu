// Four stages of 4-byte copies; a group is committed in each step, with or without copies.
#define STAGES 4

__global__ void cp_async_stages(const int* in, int* out, int tiles) {
    __shared__ int ring[STAGES][32];
    int lane = threadIdx.x;
    for (int s = 0; s < STAGES - 1; ++s) {
        unsigned int to = (unsigned int)__cvta_generic_to_shared(&ring[s][lane]);
        if (s < tiles) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + s * 32 + lane));
        asm volatile("cp.async.commit_group;");
    }
    int sum = 0;
    for (int t = 0; t < tiles; ++t) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        sum += ring[t % STAGES][(lane + t) % 32];
        int next = t + STAGES - 1;
        unsigned int to = (unsigned int)__cvta_generic_to_shared(&ring[next % STAGES][lane]);
        if (next < tiles) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + next * 32 + lane));
        asm volatile("cp.async.commit_group;");
    }
    out[lane] = sum;
}
