// Primes below n by a sieve of bits in shared memory, in one block; a bit is set where a number is no prime.
#define WORDS 16

__global__ void sieve_bits(int* primes, int* count, int n) {
    __shared__ unsigned bits[WORDS];
    __shared__ int found;
    int t = threadIdx.x;
    if (t < WORDS) bits[t] = 0;
    if (t == 0) found = 0;
    __syncthreads();  // no bit is set
    for (int p = 2; p * p < n; p++) {
        bool prime = !(bits[p / 32] >> (p % 32) & 1);
        __syncthreads();  // all know of p
        if (prime) {
            for (int k = p * p + t * p; k < n; k += p * blockDim.x) atomicOr(&bits[k / 32], 1u << (k % 32));
        }
        __syncthreads();  // multiples of p
    }
    for (int k = 2 + t; k < n; k += blockDim.x) {
        if (!(bits[k / 32] >> (k % 32) & 1)) primes[atomicAdd(&found, 1)] = k;
    }
    __syncthreads();  // all are found
    if (t == 0) *count = found;
}
