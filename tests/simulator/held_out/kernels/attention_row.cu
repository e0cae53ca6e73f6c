// Attention of one head: a block for each query, which sees the keys up to its own place.
__global__ void attention_row(const float* Q, const float* K, const float* V, float* out, int n, int d, float scale) {
    extern __shared__ float space[];
    float* q = space;           // d
    float* scores = space + d;  // n
    __shared__ float most, total;
    int tid = threadIdx.x, me = blockIdx.x;
    for (int c = tid; c < d; c += blockDim.x) q[c] = Q[me * d + c];
    __syncthreads();  // the query is here
    for (int j = tid; j <= me; j += blockDim.x) {
        float dot = 0.0f;
        for (int c = 0; c < d; c++) dot += q[c] * K[j * d + c];
        scores[j] = dot * scale;
    }
    __syncthreads();  // scores
    if (tid < 32) {
        float top = -INFINITY;
        for (int j = tid; j <= me; j += 32) top = fmaxf(top, scores[j]);
        for (int offset = 16; offset > 0; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, offset));
        if (tid == 0) most = top;
    }
    __syncthreads();  // the largest score
    for (int j = tid; j <= me; j += blockDim.x) scores[j] = expf(scores[j] - most);
    __syncthreads();  // powers
    if (tid < 32) {
        float sum = 0.0f;
        for (int j = tid; j <= me; j += 32) sum += scores[j];
        for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
        if (tid == 0) total = sum;
    }
    __syncthreads();  // their sum
    for (int c = tid; c < d; c += blockDim.x) {
        float mix = 0.0f;
        for (int j = 0; j <= me; j++) mix += scores[j] * V[j * d + c];
        out[me * d + c] = mix / total;
    }
}
