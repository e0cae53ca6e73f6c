// The place of each element is the number of those before it.
__global__ void rank_sort(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = in[i];
    int rank = 0;
    for (int j = 0; j < n; ++j) {
        if (in[j] < v || (in[j] == v && j < i)) ++rank;
    }
    out[rank] = v;
}
