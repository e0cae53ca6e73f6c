// Loops of a length that the data decide.
__global__ void collatz(const int* start, int* steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long v = start[i];
    int count = 0;
    while (v != 1) {
        if (v % 2 == 0)
            v /= 2;
        else
            v = 3 * v + 1;
        ++count;
    }
    steps[i] = count;
}
