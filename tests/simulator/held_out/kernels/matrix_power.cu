// A power of a 12 x 12 matrix modulo a prime, by squares, in one block with a thread for each number.
#define N 12
#define PRIME 1000003u

__global__ void matrix_power(const unsigned* matrix, unsigned* out, int power) {
    __shared__ unsigned base[N][N];
    __shared__ unsigned result[N][N];
    int x = threadIdx.x, y = threadIdx.y;
    base[y][x] = matrix[y * N + x];
    result[y][x] = x == y ? 1u : 0u;
    __syncthreads();  // both are set
    for (int left = power; left > 0; left >>= 1) {
        unsigned long long times = 0, square = 0;
        for (int k = 0; k < N; k++) {
            times += (unsigned long long)result[y][k] * base[k][x];
            square += (unsigned long long)base[y][k] * base[k][x];
        }
        __syncthreads();  // all have read
        if (left & 1) result[y][x] = times % PRIME;
        base[y][x] = square % PRIME;
        __syncthreads();  // all have stored
    }
    out[y * N + x] = result[y][x];
}
