// Falsch: nach der inneren Schleife fehlt die zweite Barriere.
template <int T>
__global__ void kacheln(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float ka[T][T], kb[T][T];
    const int z = blockIdx.y * T + threadIdx.y, s = blockIdx.x * T + threadIdx.x;
    float summe = 0.f;
    for (int t = 0; t < k; t += T) {
        ka[threadIdx.y][threadIdx.x] = z < m && t + threadIdx.x < k ? a[z * k + t + threadIdx.x] : 0.f;
        kb[threadIdx.y][threadIdx.x] = s < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + s] : 0.f;
        __syncthreads();
        for (int i = 0; i < T; ++i) summe += ka[threadIdx.y][i] * kb[i][threadIdx.x];
    }
    if (z < m && s < n) c[z * n + s] = summe;
}
template __global__ void kacheln<16>(const float*, const float*, float*, int, int, int);
