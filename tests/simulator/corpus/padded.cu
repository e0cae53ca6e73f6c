/* Tiles with a padded row: B is transposed, (N, K), and columns of its tile would all be in one bank. */
#define TILE 32

__global__ void nt_padded(const float *a, const float *bt, float *c, int m, int n, int k)
{
    __shared__ float sa[TILE][TILE + 1], sb[TILE][TILE + 1];
    int col = blockIdx.x * TILE + threadIdx.x;
    int row = blockIdx.y * TILE + threadIdx.y;
    int bcol = blockIdx.x * TILE + threadIdx.y;   /* the row of bt that this thread loads */
    float s = 0.f;
    for (int t = 0; t < k; t += TILE) {
        int kk = t + threadIdx.x;
        sa[threadIdx.y][threadIdx.x] = row < m && kk < k ? a[row * k + kk] : 0.f;
        sb[threadIdx.y][threadIdx.x] = bcol < n && kk < k ? bt[bcol * k + kk] : 0.f;
        __syncthreads();
        for (int i = 0; i < TILE; i++) s += sa[threadIdx.y][i] * sb[threadIdx.x][i];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = s;
}
