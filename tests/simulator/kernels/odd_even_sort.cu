// Neighbours are exchanged in global memory, with barriers of the only block.
__global__ void odd_even_sort(int* data, int n) {
    for (int phase = 0; phase < n; ++phase) {
        int i = 2 * threadIdx.x + (phase & 1);
        if (i + 1 < n) {
            int a = data[i], b = data[i + 1];
            if (a > b) {
                data[i] = b;
                data[i + 1] = a;
            }
        }
        __syncthreads();
    }
}
