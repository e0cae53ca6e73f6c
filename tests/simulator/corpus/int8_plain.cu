#include <cstdio>

__global__ void qmatmul(const signed char *x, const signed char *w, int *y, int M, int N, int K)
{
    const int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < M * N) {
        const int i = idx / N, j = idx - i * N;
        int acc = 0;
        for (int k = 0; k < K; ++k) acc += int(x[i * K + k]) * int(w[k * N + j]);
        y[idx] = acc;
    }
}

void run(const signed char *x, const signed char *w, int *y, int M, int N, int K)
{
    const int threads = 256;
    qmatmul<<<(M * N + threads - 1) / threads, threads>>>(x, w, y, M, N, K);
}

int main() { printf("built\n"); return 0; }
