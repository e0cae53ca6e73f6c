// A reduction of any operation; the last warp goes on by itself.
struct Max {
    static __device__ int identity() { return INT_MIN; }
    __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

template <class Op, int BLOCK>
__global__ void functor_reduce(const int* in, int* out, int n) {
    __shared__ int s[BLOCK];
    Op op;
    int t = threadIdx.x;
    int all = Op::identity();
    for (int i = blockIdx.x * BLOCK + t; i < n; i += BLOCK * gridDim.x) all = op(all, in[i]);
    s[t] = all;
    __syncthreads();  // elements
    for (int h = BLOCK / 2; h > 32; h /= 2) {
        if (t < h) s[t] = op(s[t], s[t + h]);
        __syncthreads();  // halves
    }
    if (t < 32) {
        for (int h = 32; h > 0; h /= 2) {
            int v = op(s[t], s[t + h]);
            __syncwarp();  // all have read
            s[t] = v;
            __syncwarp();  // all have written
        }
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
