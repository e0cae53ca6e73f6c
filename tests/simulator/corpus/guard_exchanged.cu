/* Les bornes sont échangées : lignes et colonnes. */
__global__ void mm_bornes(const float *a, const float *b, float *c, int lignes, int colonnes, int commun)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < colonnes && j < colonnes) {
        float s = 0.f;
        for (int k = 0; k < commun; ++k) s += a[i * commun + k] * b[k * colonnes + j];
        c[i * colonnes + j] = s;
    }
}
