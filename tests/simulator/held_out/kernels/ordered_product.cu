// The ordered product of 2 x 2 matrices modulo a prime: a tree in shared memory for each block.
struct Mat {
    unsigned a, b, c, d;
};

__device__ Mat operator*(const Mat& l, const Mat& r) {
    const unsigned long long p = 1000003;
    Mat m;
    m.a = (unsigned)(((unsigned long long)l.a * r.a + (unsigned long long)l.b * r.c) % p);
    m.b = (unsigned)(((unsigned long long)l.a * r.b + (unsigned long long)l.b * r.d) % p);
    m.c = (unsigned)(((unsigned long long)l.c * r.a + (unsigned long long)l.d * r.c) % p);
    m.d = (unsigned)(((unsigned long long)l.c * r.b + (unsigned long long)l.d * r.d) % p);
    return m;
}

__global__ void ordered_product(const uint4* x, uint4* y, int n) {
    __shared__ Mat m[128];
    int tid = threadIdx.x, i = blockIdx.x * 128 + tid;
    Mat own = {1, 0, 0, 1};
    if (i < n) own = Mat{x[i].x, x[i].y, x[i].z, x[i].w};
    m[tid] = own;
    for (int step = 1; step < 128; step *= 2) {
        __syncthreads();
        if (tid % (2 * step) == 0) m[tid] = m[tid] * m[tid + step];
    }
    if (tid == 0) y[blockIdx.x] = make_uint4(m[0].a, m[0].b, m[0].c, m[0].d);
}
