// A filter of eight bytes over bytes: two words per window, which begins anywhere in a word, and two dot products.
__global__ void dp4a_slide(const int* words, int2 taps, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n - 7) return;
    int word = i / 4, off = i % 4 * 8;
    int w0 = words[word], w1 = words[word + 1];
    int w2 = off > 0 ? words[word + 2] : 0;
    int sum = 0;
    sum = __dp4a((int)__funnelshift_r(w0, w1, off), taps.x, sum);
    sum = __dp4a((int)__funnelshift_r(w1, w2, off), taps.y, sum);
    out[i] = sum;
}
