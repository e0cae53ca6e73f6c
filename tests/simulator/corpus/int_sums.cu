// Copied from the integer version and not finished.
__global__ void multiplicar(const float *a, const float *b, float *c, int m, int n, int p)
{
    int fila = blockIdx.y * blockDim.y + threadIdx.y;
    int columna = blockIdx.x * blockDim.x + threadIdx.x;
    int suma = 0;
    if (fila < m && columna < n) {
        for (int i = 0; i < p; i++)
            suma += a[fila * p + i] * b[i * n + columna];
        c[fila * n + columna] = suma;
    }
}
