// Decodes text of literals and copies: a warp per message, which copies up to 32 letters at a time.
struct Token {
    short distance;  // 0 for a literal, whose letter is in length
    short length;
};

__global__ void lz_decode(const Token* tokens, const int* starts, const int* places, char* text, int messages) {
    int lane = threadIdx.x % 32;
    int message = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (message >= messages) return;
    int at = places[message];
    for (int t = starts[message]; t < starts[message + 1]; t++) {
        Token token = tokens[t];
        if (token.distance == 0) {
            if (lane == 0) text[at] = (char)token.length;
            at++;
        } else {
            const char* source = text + at - token.distance;
            for (int i = lane; i < token.length; i += 32) text[at + i] = source[i % token.distance];
            at += token.length;
        }
        __syncwarp();
    }
}
