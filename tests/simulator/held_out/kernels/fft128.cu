// A Fourier transform of 128 complex numbers by 64 threads.
__global__ void fft128(const float2* in, float2* out) {
    __shared__ float2 s[128];
    int t = threadIdx.x;
    for (int i = t; i < 128; i += 64) s[__brev(i) >> 25] = in[blockIdx.x * 128 + i];
    for (int half = 1; half < 128; half *= 2) {
        __syncthreads();  // the step before
        int k = t % half;
        int i = (t / half) * 2 * half + k;
        float cosine, sine;
        sincospif(-(float)k / half, &sine, &cosine);
        float2 u = s[i];
        float2 v = s[i + half];
        float2 w = make_float2(v.x * cosine - v.y * sine, v.x * sine + v.y * cosine);
        s[i] = make_float2(u.x + w.x, u.y + w.y);
        s[i + half] = make_float2(u.x - w.x, u.y - w.y);
    }
    __syncthreads();  // all steps
    for (int i = t; i < 128; i += 64) out[blockIdx.x * 128 + i] = s[i];
}
