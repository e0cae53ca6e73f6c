// How far each node of a linked list is from its end, by jumps that double, in one block. The end points at itself.
#define MOST 128

__global__ void list_rank(const int* next, int* rank, int n) {
    __shared__ int link[MOST];
    __shared__ int far[MOST];
    int i = threadIdx.x;
    if (i < n) {
        link[i] = next[i];
        far[i] = next[i] == i ? 0 : 1;
    }
    __syncthreads();  // the list is here
    for (int reach = 1; reach < n; reach *= 2) {
        int to = 0, add = 0;
        if (i < n) {
            add = far[link[i]];
            to = link[link[i]];
        }
        __syncthreads();  // all have read
        if (i < n) {
            far[i] += add;
            link[i] = to;
        }
        __syncthreads();  // all have jumped
    }
    if (i < n) rank[i] = far[i];
}
