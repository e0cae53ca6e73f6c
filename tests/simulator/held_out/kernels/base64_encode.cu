// Base64: a thread per three bytes writes four letters; the alphabet is copied to shared memory.
__constant__ char letters[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

__global__ void base64_encode(const unsigned char* in, char* out, int n) {
    __shared__ char alphabet[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) alphabet[i] = letters[i];
    __syncthreads();
    int group = blockIdx.x * blockDim.x + threadIdx.x;
    int i = group * 3;
    if (i >= n) return;
    unsigned bits = in[i] << 16;
    if (i + 1 < n) bits |= in[i + 1] << 8;
    if (i + 2 < n) bits |= in[i + 2];
    char4 text;
    text.x = alphabet[bits >> 18];
    text.y = alphabet[bits >> 12 & 63];
    text.z = i + 1 < n ? alphabet[bits >> 6 & 63] : '=';
    text.w = i + 2 < n ? alphabet[bits & 63] : '=';
    reinterpret_cast<char4*>(out)[group] = text;
}
