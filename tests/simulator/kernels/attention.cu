// Scaled dot-product attention of a few queries, the scores in shared memory.
#define KEYS 32
#define DEPTH 16

__global__ void attention(const float* q, const float* k, const float* v, float* out) {
    __shared__ float scores[KEYS];
    __shared__ float query[DEPTH];
    int tid = threadIdx.x;
    if (tid < DEPTH) query[tid] = q[blockIdx.x * DEPTH + tid];
    __syncthreads();
    float dot = 0.0f;
    for (int d = 0; d < DEPTH; ++d) dot += query[d] * k[tid * DEPTH + d];
    scores[tid] = dot * 0.25f;
    __syncthreads();
    float highest = scores[0];
    for (int j = 1; j < KEYS; ++j) highest = fmaxf(highest, scores[j]);
    float weight = expf(scores[tid] - highest);
    __syncthreads();
    scores[tid] = weight;
    __syncthreads();
    if (tid < DEPTH) {
        float sum = 0.0f, total = 0.0f;
        for (int j = 0; j < KEYS; ++j) {
            sum += scores[j] * v[j * DEPTH + tid];
            total += scores[j];
        }
        out[blockIdx.x * DEPTH + tid] = sum / total;
    }
}
