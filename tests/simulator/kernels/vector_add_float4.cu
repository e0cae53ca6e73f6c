// c = a + b, four elements a thread; the last thread adds what four do not divide.
__global__ void vector_add_float4(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int quads = n / 4;
    if (i < quads) {
        float4 x = reinterpret_cast<const float4*>(a)[i];
        float4 y = reinterpret_cast<const float4*>(b)[i];
        float4 z = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
        reinterpret_cast<float4*>(c)[i] = z;
    }
    if (i == quads) {
        for (int j = 4 * quads; j < n; j++) c[j] = a[j] + b[j];
    }
}
