// tiledmm: grid=(N+1023)/1024 block=256
__global__ void float4_copy(const float* A, float* C, int N) {
    //[start]
    // TODO: let each thread copy four floats that lie side by side with one load and one store.
    // Here, each thread copies four floats one by one.
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < N && i < (blockIdx.x + 1) * 1024; i += 256) C[i] = A[i];
    //[solution]
    int i = 4 * (blockIdx.x * 256 + threadIdx.x);
    if (i + 3 < N)
        *(float4*)&C[i] = *(const float4*)&A[i];
    else
        for (; i < N; ++i) C[i] = A[i];  // the last one, two or three floats
    //[end]
}
