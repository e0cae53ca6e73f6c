// Dropout with the counter-based generator Philox: a thread draws four numbers for four neighbouring elements.
__device__ uint4 philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; round++) {
        unsigned high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
        unsigned high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
        counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return counter;
}

__global__ void philox_dropout(const float* x, float* y, int n, unsigned seed, unsigned threshold) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int i = t * 4;
    if (i >= n) return;
    uint4 drawn = philox(make_uint4(t, 0, 0, 0), make_uint2(seed, 0));
    unsigned bits[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
    if (i + 4 <= n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        v.x = bits[0] < threshold ? 2.0f * v.x : 0.0f;
        v.y = bits[1] < threshold ? 2.0f * v.y : 0.0f;
        v.z = bits[2] < threshold ? 2.0f * v.z : 0.0f;
        v.w = bits[3] < threshold ? 2.0f * v.w : 0.0f;
        *reinterpret_cast<float4*>(y + i) = v;
    } else {
        for (int k = 0; i + k < n; k++) y[i + k] = bits[k] < threshold ? 2.0f * x[i + k] : 0.0f;
    }
}
