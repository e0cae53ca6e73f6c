/*
 * TP 3 : produit de matrices carrées, mémoire partagée.
 * Chaque bloc calcule une tuile de C ; les tuiles de A et de B passent par la mémoire partagée.
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

#define TAILLE 8

__global__ void produit(float *a, float *b, float *c, int n)
{
    __shared__ float ta[TAILLE][TAILLE];
    __shared__ float tb[TAILLE][TAILLE];

    int lig = blockIdx.y * TAILLE + threadIdx.y;
    int col = blockIdx.x * TAILLE + threadIdx.x;
    float acc = 0;

    for (int t = 0; t < n; t += TAILLE) {
        // hors de la matrice on met des zéros
        ta[threadIdx.y][threadIdx.x] = (lig < n && t + threadIdx.x < n) ? a[lig * n + t + threadIdx.x] : 0;
        tb[threadIdx.y][threadIdx.x] = (col < n && t + threadIdx.y < n) ? b[(t + threadIdx.y) * n + col] : 0;
        __syncthreads();   // tout le monde a chargé
        for (int k = 0; k < TAILLE; ++k)
            acc += ta[threadIdx.y][k] * tb[k][threadIdx.x];
        __syncthreads();   // tout le monde a lu
    }
    if (lig < n && col < n)
        c[lig * n + col] = acc;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 64;
    std::vector<float> a(n * n, 1.f), b(n * n, 2.f), c(n * n);
    float *da, *db, *dc;
    cudaMalloc((void **)&da, n * n * sizeof(float));
    cudaMalloc((void **)&db, n * n * sizeof(float));
    cudaMalloc((void **)&dc, n * n * sizeof(float));
    cudaMemcpy(da, a.data(), n * n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(db, b.data(), n * n * sizeof(float), cudaMemcpyHostToDevice);
    dim3 blocs((n + TAILLE - 1) / TAILLE, (n + TAILLE - 1) / TAILLE), fils(TAILLE, TAILLE);
    produit<<<blocs, fils>>>(da, db, dc, n);
    cudaMemcpy(c.data(), dc, n * n * sizeof(float), cudaMemcpyDeviceToHost);
    std::printf("c[0][0] = %g (attendu %g)\n", c[0], 2.0 * n);
    cudaFree(da); cudaFree(db); cudaFree(dc);
}
