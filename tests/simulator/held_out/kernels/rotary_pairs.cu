// Turns pairs of halves in place, by cosines and sines of the token's place: a block for each token and two heads.
#include <cuda_fp16.h>

__global__ void rotary_pairs(__half2* q, const float2* turn, int heads, int pairs) {
    int token = blockIdx.x;
    int head = blockIdx.y * blockDim.y + threadIdx.y;
    int pair = threadIdx.x;
    if (head >= heads || pair >= pairs) return;
    float2 t = turn[token * pairs + pair];
    __half2* at = q + (token * heads + head) * pairs + pair;
    float2 v = __half22float2(*at);
    float first = v.x * t.x - v.y * t.y;
    float second = v.x * t.y + v.y * t.x;
    *at = __floats2half2_rn(first, second);
}
