// Sums of each column's numbers without the two smallest and the two largest: sorted in an array of the thread's own.
#define ROWS 9

template <typename T, int N>
__device__ void insertion_sort(T (&v)[N]) {
    for (int i = 1; i < N; i++) {
        T key = v[i];
        int j = i - 1;
        while (j >= 0 && v[j] > key) {
            v[j + 1] = v[j];
            j--;
        }
        v[j + 1] = key;
    }
}

template <int CUT, typename T, int N>
__device__ T middle_sum(const T (&v)[N]) {
    T sum = 0;
    for (int i = CUT; i < N - CUT; i++) sum += v[i];
    return sum;
}

__global__ void trimmed_sums(const int* x, int* out, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    int v[ROWS];
    for (int r = 0; r < ROWS; r++) v[r] = x[r * columns + column];
    insertion_sort(v);
    out[column] = middle_sum<2>(v);
}
