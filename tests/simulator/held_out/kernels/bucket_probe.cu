// Looks up keys in a table of buckets of eight; a tile of eight threads reads a bucket, and goes on if it is full.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void bucket_probe(const int* keys, const int* values, const int* query, int* out, int buckets, int queries) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int q = (blockIdx.x * blockDim.x + threadIdx.x) / 8;
    if (q >= queries) return;
    int wanted = query[q];
    int bucket = wanted % buckets;
    int found = -1;
    for (int step = 0; step < buckets; step++) {
        int k = keys[bucket * 8 + tile.thread_rank()];
        unsigned hit = tile.ballot(k == wanted);
        if (hit) {
            found = values[bucket * 8 + __ffs(hit) - 1];
            break;
        }
        if (tile.any(k == -1)) break;
        bucket = (bucket + 1) % buckets;
    }
    if (tile.thread_rank() == 0) out[q] = found;
}
