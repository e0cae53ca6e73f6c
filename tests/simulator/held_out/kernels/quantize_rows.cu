// Rows as 8-bit integers and a scale each: the largest absolute value becomes 127.
__global__ void quantize_rows(const float4* x, char4* q, float* scales, int quads) {
    __shared__ int top;
    if (threadIdx.x == 0) top = 0;
    __syncthreads();  // zero
    const float4* in = x + blockIdx.x * quads;
    float mine = 0;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        float4 v = in[i];
        mine = fmaxf(mine, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    }
    atomicMax(&top, __float_as_int(mine));
    __syncthreads();  // the largest
    float scale = __int_as_float(top) / 127;
    float inverse = scale > 0 ? 1 / scale : 0;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        float4 v = in[i];
        q[blockIdx.x * quads + i] = make_char4(__float2int_rn(v.x * inverse), __float2int_rn(v.y * inverse),
                                               __float2int_rn(v.z * inverse), __float2int_rn(v.w * inverse));
    }
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}
