// Run-length encoding by one block: values, where they start, and how many there are.
__global__ void run_lengths(const int* in, int* values, int* starts, int* runs, int n) {
    __shared__ int scan[2][128];
    int t = threadIdx.x;
    bool head = t < n && (t == 0 || in[t] != in[t - 1]);
    int from = 0;
    scan[0][t] = head;
    __syncthreads();  // heads
    for (int d = 1; d < 128; d *= 2) {
        scan[1 - from][t] = scan[from][t] + (t >= d ? scan[from][t - d] : 0);
        from = 1 - from;
        __syncthreads();  // sums
    }
    if (head) {
        int place = scan[from][t] - 1;
        values[place] = in[t];
        starts[place] = t;
    }
    if (t == n - 1) {
        *runs = scan[from][t];
        starts[scan[from][t]] = n;
    }
}
