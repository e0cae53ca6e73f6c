// Merges two sorted arrays: an element's place is its own index and its rank in the other array.
__device__ int count_below(const int* a, int n, int key) {
    int low = 0, high = n;
    while (low < high) {
        int mid = (low + high) / 2;
        if (a[mid] < key) low = mid + 1;
        else high = mid;
    }
    return low;
}

__device__ int count_up_to(const int* a, int n, int key) {
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) >> 1;
        if (a[middle] <= key) low = middle + 1;
        else high = middle;
    }
    return low;
}

__global__ void merge_ranks(const int* a, int na, const int* b, int nb, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < na) {
        out[i + count_below(b, nb, a[i])] = a[i];
    } else if (i < na + nb) {
        int j = i - na;
        out[j + count_up_to(a, na, b[j])] = b[j];
    }
}
