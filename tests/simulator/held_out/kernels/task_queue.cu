// Sums of pieces of several lengths: blocks take the next piece from a counter until none is left.
__global__ void task_queue(const int* x, const int* starts, int* sums, int* queue, int tasks) {
    __shared__ int task, total;
    while (true) {
        if (threadIdx.x == 0) {
            task = atomicAdd(queue, 1);
            total = 0;
        }
        __syncthreads();  // the task is known
        int mine = task;
        if (mine >= tasks) break;
        int sum = 0;
        for (int i = starts[mine] + threadIdx.x; i < starts[mine + 1]; i += blockDim.x) sum += x[i];
        atomicAdd(&total, sum);
        __syncthreads();  // all have added
        if (threadIdx.x == 0) sums[mine] = total;
    }
}
