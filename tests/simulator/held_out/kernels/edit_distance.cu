// Edit distance of two strings, diagonal by diagonal, in one block: a thread for each row, three diagonals are kept.
#define MOST 63

__global__ void edit_distance(const char* a, int n, const char* b, int m, int* distance) {
    __shared__ int diagonals[3][MOST + 1];
    int i = threadIdx.x;
    for (int d = 0; d <= n + m; d++) {
        int* now = diagonals[d % 3];
        int* last = diagonals[(d + 2) % 3];
        int* older = diagonals[(d + 1) % 3];
        int j = d - i;
        if (i <= n && j >= 0 && j <= m) {
            int best;
            if (i == 0) {
                best = j;
            } else if (j == 0) {
                best = i;
            } else {
                best = min(last[i - 1], last[i]) + 1;
                best = min(best, older[i - 1] + (a[i - 1] != b[j - 1]));
            }
            now[i] = best;
            if (i == n && j == m) *distance = best;
        }
        __syncthreads();
    }
}
