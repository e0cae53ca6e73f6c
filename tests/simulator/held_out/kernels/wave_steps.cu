// Steps of a wave on a small square: three planes in shared memory change their roles after each step.
__global__ void wave_steps(const int* start, int* result, int steps) {
    __shared__ int planes[3][18][18];
    int x = threadIdx.x + 1, y = threadIdx.y + 1;
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 3 * 18 * 18; i += 256) (&planes[0][0][0])[i] = 0;
    __syncthreads();  // zeros
    planes[0][y][x] = start[(blockIdx.x * 16 + threadIdx.y) * 16 + threadIdx.x];
    planes[1][y][x] = planes[0][y][x];
    __syncthreads();  // the start
    int before = 0, now = 1, next = 2;
    for (int step = 0; step < steps; step++) {
        int sides = planes[now][y - 1][x] + planes[now][y + 1][x] + planes[now][y][x - 1] + planes[now][y][x + 1];
        planes[next][y][x] = sides / 2 - planes[before][y][x];
        __syncthreads();  // a step
        int old = before;
        before = now;
        now = next;
        next = old;
    }
    result[(blockIdx.x * 16 + threadIdx.y) * 16 + threadIdx.x] = planes[now][y][x];
}
