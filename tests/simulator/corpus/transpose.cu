/* Transposée par tuiles : lectures et écritures contiguës. */
#define COTE 32
#define LIGNES 8

__global__ void transposer(float *sortie, const float *entree, int lignes, int colonnes)
{
    __shared__ float tuile[COTE][COTE + 1];
    int x = blockIdx.x * COTE + threadIdx.x, y = blockIdx.y * COTE + threadIdx.y;
    for (int j = 0; j < COTE; j += LIGNES)
        if (x < colonnes && y + j < lignes) tuile[threadIdx.y + j][threadIdx.x] = entree[(y + j) * colonnes + x];
    __syncthreads();
    x = blockIdx.y * COTE + threadIdx.x;
    y = blockIdx.x * COTE + threadIdx.y;
    for (int j = 0; j < COTE; j += LIGNES)
        if (x < lignes && y + j < colonnes) sortie[(y + j) * lignes + x] = tuile[threadIdx.x][threadIdx.y + j];
}
