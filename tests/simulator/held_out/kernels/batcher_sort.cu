// Batcher's odd-even merge sort of up to 128 numbers with their places; a block per list.
__global__ void batcher_sort(const int* x, int* sorted, int* places, int n) {
    __shared__ int key[128];
    __shared__ short place[128];
    int e = threadIdx.x;
    key[e] = e < n ? x[blockIdx.x * n + e] : 0x7FFFFFFF;
    place[e] = (short)e;
    for (int p = 1; p < 128; p *= 2) {
        for (int k = p; k >= 1; k /= 2) {
            __syncthreads();  // a layer
            bool lower = e >= k % p && (e - k % p) / k % 2 == 0 && e + k < 128;
            if (lower && e / (2 * p) == (e + k) / (2 * p)) {
                int a = key[e], b = key[e + k];
                if (a > b || (a == b && place[e] > place[e + k])) {
                    key[e] = b;
                    key[e + k] = a;
                    short s = place[e];
                    place[e] = place[e + k];
                    place[e + k] = s;
                }
            }
        }
    }
    __syncthreads();  // sorted
    for (int i = e; i < n; i += blockDim.x) {
        sorted[blockIdx.x * n + i] = key[i];
        places[blockIdx.x * n + i] = place[i];
    }
}
