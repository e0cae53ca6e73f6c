// A block per job: a structure in shared memory tells where its numbers are, and what to do with them.
struct Job {
    const int* in;
    int* out;
    const int* factor;
    int size;
};

__global__ void job_lists(const int* x, const int* starts, const int* factors, int* y, int* totals) {
    __shared__ Job job;
    __shared__ int factor, total;
    if (threadIdx.x == 0) {
        int first = starts[blockIdx.x];
        factor = factors[blockIdx.x] % 10;
        job = Job{x + first, y + first, &factor, starts[blockIdx.x + 1] - first};
        total = 0;
    }
    __syncthreads();  // the job
    int sum = 0;
    for (int i = threadIdx.x; i < job.size; i += blockDim.x) {
        int v = job.in[i] * *job.factor;
        job.out[job.size - 1 - i] = v;
        sum += v;
    }
    atomicAdd(&total, sum);
    __syncthreads();  // the total
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
}
