// Each thread sorts eight values in an array of its own.
__global__ void local_sort(const int* in, int* out, int groups) {
    int group = blockIdx.x * blockDim.x + threadIdx.x;
    if (group >= groups) return;
    int v[8];
    for (int j = 0; j < 8; ++j) v[j] = in[8 * group + j];
    for (int j = 1; j < 8; ++j) {
        int x = v[j];
        int k = j - 1;
        while (k >= 0 && v[k] > x) {
            v[k + 1] = v[k];
            --k;
        }
        v[k + 1] = x;
    }
    for (int j = 0; j < 8; ++j) out[8 * group + j] = v[j];
}
