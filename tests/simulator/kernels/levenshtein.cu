// Edit distance along anti-diagonals, three of which are kept in shared memory.
__global__ void levenshtein(const char* a, const char* b, int n, int m, int* distance) {
    __shared__ int rows[3][65];
    int i = threadIdx.x;   // of a, 0 to n
    for (int d = 0; d <= n + m; ++d) {
        int j = d - i;
        if (i <= n && j >= 0 && j <= m) {
            int best;
            if (i == 0) {
                best = j;
            } else if (j == 0) {
                best = i;
            } else {
                int cost = a[i - 1] == b[j - 1] ? 0 : 1;
                best = rows[(d + 1) % 3][i - 1] + cost;
                best = min(best, rows[(d + 2) % 3][i - 1] + 1);
                best = min(best, rows[(d + 2) % 3][i] + 1);
            }
            rows[d % 3][i] = best;
            if (d == n + m) *distance = best;
        }
        __syncthreads();
    }
}
