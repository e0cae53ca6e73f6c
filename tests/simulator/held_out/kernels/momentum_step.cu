// A step of gradient descent with momentum: parameters of the step in a structure, four numbers per thread at a time.
struct Step {
    float rate, momentum;
    int n, whole;
};

__device__ void update(float& w, float& m, float g, const Step& step) {
    m = step.momentum * m + g;
    w -= step.rate * m;
}

__global__ void momentum_step(float* weights, float* moments, const float* grads, Step step) {
    int stride = gridDim.x * blockDim.x;
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < step.whole; i += stride) {
        float4 w = reinterpret_cast<float4*>(weights)[i], m = reinterpret_cast<float4*>(moments)[i];
        float4 g = reinterpret_cast<const float4*>(grads)[i];
        update(w.x, m.x, g.x, step);
        update(w.y, m.y, g.y, step);
        update(w.z, m.z, g.z, step);
        update(w.w, m.w, g.w, step);
        reinterpret_cast<float4*>(weights)[i] = w;
        reinterpret_cast<float4*>(moments)[i] = m;
    }
    int tail = step.whole * 4 + first;
    if (tail < step.n) update(weights[tail], moments[tail], grads[tail], step);
}
