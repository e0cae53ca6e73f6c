// Labels of connected cells spread by atomicMin until none changes in a block.
__global__ void union_labels(const int* cells, int* labels, int n) {
    __shared__ int label[64];
    int i = threadIdx.x;
    label[i] = i;
    __syncthreads();
    while (true) {
        int changed = 0;
        if (i + 1 < n && cells[i] == cells[i + 1]) {
            int a = atomicAdd(&label[i], 0), b = atomicAdd(&label[i + 1], 0);
            if (a < b) {
                atomicMin(&label[i + 1], a);
                changed = 1;
            } else if (b < a) {
                atomicMin(&label[i], b);
                changed = 1;
            }
        }
        if (!__syncthreads_or(changed)) break;
    }
    if (i < n) labels[i] = label[i];
}
