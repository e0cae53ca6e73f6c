// Words of a text and the letters in them: a word starts at a letter with none before it.
__device__ bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

__global__ void count_words(const char* text, int n, int* words, int* letters) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32;
    int is = i < n && letter(text[i]) ? 1 : 0;
    int before = __shfl_up_sync(0xffffffffu, is, 1);
    if (lane == 0) before = i > 0 && i <= n && letter(text[i - 1]);
    unsigned starts = __ballot_sync(0xffffffffu, is && !before);
    unsigned all = __ballot_sync(0xffffffffu, is);
    if (lane == 0) {
        atomicAdd(words, __popc(starts));
        atomicAdd(letters, __popc(all));
    }
}
