// A median of five neighbours, of fewer at the ends.
__global__ void median_filter(const short* in, short* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    short window[5];
    int count = 0;
    for (int d = -2; d <= 2; ++d) {
        int j = i + d;
        if (j >= 0 && j < n) window[count++] = in[j];
    }
    for (int a = 1; a < count; ++a) {
        short key = window[a];
        int b = a;
        while (b > 0 && window[b - 1] > key) {
            window[b] = window[b - 1];
            --b;
        }
        window[b] = key;
    }
    short median;
    if (count % 2 == 1) {
        median = window[count / 2];
    } else {
        median = (window[count / 2 - 1] + window[count / 2]) / 2;
    }
    out[i] = median;
}
