// Thread blocks, tiles of a warp, coalesced threads, clusters, and grids.
#pragma once

#include "asynchronous.h"
#include "intrinsics.h"
#include "runtime.h"
#include "warps.h"

namespace cooperative_groups {

namespace detail {

__forceinline__ unsigned threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }
__forceinline__ unsigned thread_of_block() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__forceinline__ unsigned long long blocks_of_grid() {
    return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
}
__forceinline__ unsigned long long block_of_grid() {
    return blockIdx.x + gridDim.x * (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z);
}
__forceinline__ unsigned lanes_of(unsigned size) { return size == 32 ? ~0u : (1u << size) - 1; }
__forceinline__ unsigned lanes_below() { return (1u << tiledmm_lane()) - 1; }
__forceinline__ unsigned nth_lane(unsigned mask, unsigned rank) {   // the rank's lane; itself if there is none
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1 && rank-- == 0) return lane;
    return tiledmm_lane();
}
__forceinline__ unsigned packed(unsigned mask, unsigned lanes) {   // the bits at the lanes of the mask, side by side
    unsigned result = 0, rank = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1) result |= (lanes >> lane & 1) << rank++;
    return result;
}

// A shuffle of any type that can be copied as bytes.
template <class T>
__forceinline__ T shuffle(unsigned mask, const T& value, unsigned lane, tiledmm_detail::Exchange kind) {
    unsigned long long words[(sizeof(T) + 7) / 8] = {};
    __builtin_memcpy(words, &value, sizeof(T));
    for (unsigned long long& word : words) word = tiledmm_detail::shuffle(mask, word, lane, kind);
    T result;
    __builtin_memcpy(&result, words, sizeof(T));
    return result;
}

}   // namespace detail

// Any group: a block, or lanes of a warp.
class thread_group {
public:
    __forceinline__ unsigned size() const { return mask_ ? static_cast<unsigned>(__builtin_popcount(mask_)) : detail::threads_of_block(); }
    __forceinline__ unsigned num_threads() const { return size(); }
    __forceinline__ unsigned thread_rank() const {
        return mask_ ? static_cast<unsigned>(__builtin_popcount(mask_ & detail::lanes_below())) : detail::thread_of_block();
    }
    __forceinline__ bool is_valid() const { return true; }
    __forceinline__ void sync() const {
        if (mask_)
            tiledmm_sync_warp(mask_);
        else
            __syncthreads();
    }

protected:
    __forceinline__ explicit thread_group(unsigned mask) : mask_(mask) {}
    unsigned mask_;   // lanes; 0 for the whole block

    friend thread_group tiled_partition(const thread_group& group, unsigned size);
};

class thread_block : public thread_group {
public:
    struct arrival_token {};

    static __forceinline__ void sync() { __syncthreads(); }
    static __forceinline__ arrival_token barrier_arrive() { return {}; }   // the wait is for all
    static __forceinline__ void barrier_wait(arrival_token&&) { __syncthreads(); }
    static __forceinline__ unsigned thread_rank() { return detail::thread_of_block(); }
    static __forceinline__ unsigned size() { return detail::threads_of_block(); }
    static __forceinline__ unsigned num_threads() { return detail::threads_of_block(); }
    static __forceinline__ dim3 group_index() { return blockIdx; }
    static __forceinline__ dim3 thread_index() { return threadIdx; }
    static __forceinline__ dim3 group_dim() { return blockDim; }
    static __forceinline__ dim3 dim_threads() { return blockDim; }

private:
    __forceinline__ thread_block() : thread_group(0) {}
    friend thread_block this_thread_block();
};
__forceinline__ thread_block this_thread_block() { return {}; }

// Lanes of a warp. Ranks are positions in the mask.
class coalesced_group : public thread_group {
public:
    __forceinline__ unsigned size() const { return static_cast<unsigned>(__builtin_popcount(mask_)); }
    __forceinline__ unsigned num_threads() const { return size(); }
    __forceinline__ unsigned thread_rank() const { return static_cast<unsigned>(__builtin_popcount(mask_ & detail::lanes_below())); }
    __forceinline__ void sync() const { tiledmm_sync_warp(mask_); }
    __forceinline__ unsigned meta_group_size() const { return groups_; }
    __forceinline__ unsigned meta_group_rank() const { return group_; }

    template <class T>
    __forceinline__ T shfl(const T& value, unsigned rank) const {
        return detail::shuffle(mask_, value, detail::nth_lane(mask_, rank), tiledmm_detail::SHUFFLE);
    }
    template <class T>
    __forceinline__ T shfl_up(const T& value, unsigned by) const {
        const unsigned rank = thread_rank();
        return detail::shuffle(mask_, value, detail::nth_lane(mask_, rank >= by ? rank - by : rank), tiledmm_detail::SHUFFLE_UP);
    }
    template <class T>
    __forceinline__ T shfl_down(const T& value, unsigned by) const {
        const unsigned rank = thread_rank();
        return detail::shuffle(mask_, value, detail::nth_lane(mask_, rank + by < size() ? rank + by : rank), tiledmm_detail::SHUFFLE_DOWN);
    }
    __forceinline__ int any(int predicate) const { return __any_sync(mask_, predicate); }
    __forceinline__ int all(int predicate) const { return __all_sync(mask_, predicate); }
    __forceinline__ unsigned ballot(int predicate) const { return detail::packed(mask_, __ballot_sync(mask_, predicate)); }
    template <class T>
    __forceinline__ unsigned match_any(T value) const {
        return detail::packed(mask_, __match_any_sync(mask_, value));
    }
    template <class T>
    __forceinline__ unsigned match_all(T value, int& all) const {
        return detail::packed(mask_, __match_all_sync(mask_, value, &all));
    }

protected:
    __forceinline__ explicit coalesced_group(unsigned mask, unsigned group = 0, unsigned groups = 1)
        : thread_group(mask), group_(group), groups_(groups) {}
    unsigned group_, groups_;

    template <class Group>
    friend coalesced_group labeled_partition(const Group& group, int label);
    template <class Group>
    friend coalesced_group binary_partition(const Group& group, bool predicate);
    friend coalesced_group coalesced_threads();
    template <class Group>
    friend unsigned mask_of(const Group& group);
};
__forceinline__ coalesced_group coalesced_threads() { return coalesced_group(tiledmm_active_mask()); }

// SIZE consecutive lanes of a warp; SIZE is a power of 2.
template <unsigned SIZE, class Parent = void>
class thread_block_tile : public coalesced_group {
    static_assert(SIZE && SIZE <= 32 && (SIZE & (SIZE - 1)) == 0,
                  "a tile has 1, 2, 4, 8, 16 or 32 threads: the simulator has no tiles of several warps; use the block");

public:
    static __forceinline__ constexpr unsigned size() { return SIZE; }
    static __forceinline__ constexpr unsigned num_threads() { return SIZE; }
    static __forceinline__ unsigned thread_rank() { return tiledmm_lane() % SIZE; }
    __forceinline__ unsigned meta_group_size() const { return groups_; }
    __forceinline__ unsigned meta_group_rank() const { return group_; }
    template <class T>
    __forceinline__ T shfl_xor(const T& value, unsigned lanes) const {
        return detail::shuffle(mask_, value, (thread_rank() ^ lanes) < SIZE ? tiledmm_lane() ^ lanes : tiledmm_lane(), tiledmm_detail::SHUFFLE_XOR);
    }
    template <class T>
    __forceinline__ T shfl(const T& value, int rank) const {
        return detail::shuffle(mask_, value, tiledmm_lane() / SIZE * SIZE + static_cast<unsigned>(rank) % SIZE, tiledmm_detail::SHUFFLE);
    }

    template <class Other>
    __forceinline__ thread_block_tile(const thread_block_tile<SIZE, Other>& tile) : coalesced_group(tile) {}

    // From a block, or from a larger tile.
    __forceinline__ explicit thread_block_tile(unsigned groups, unsigned group)
        : coalesced_group(detail::lanes_of(SIZE) << tiledmm_lane() / SIZE * SIZE, group, groups) {}
};
template <unsigned SIZE>
__forceinline__ thread_block_tile<SIZE, thread_block> tiled_partition(const thread_block&) {
    return thread_block_tile<SIZE, thread_block>((detail::threads_of_block() + SIZE - 1) / SIZE, detail::thread_of_block() / SIZE);
}
template <unsigned SIZE, unsigned LARGER, class Parent>
__forceinline__ thread_block_tile<SIZE, thread_block_tile<LARGER, Parent>> tiled_partition(const thread_block_tile<LARGER, Parent>& tile) {
    static_assert(SIZE <= LARGER, "tiled_partition divides a tile into tiles that are not larger");
    return thread_block_tile<SIZE, thread_block_tile<LARGER, Parent>>(LARGER / SIZE, tile.thread_rank() / SIZE);
}
__forceinline__ thread_group tiled_partition(const thread_group&, unsigned size) {
    if (size == 0 || size > 32 || size & (size - 1)) tiledmm_broken_rule(4);
    return thread_group(detail::lanes_of(size) << tiledmm_lane() / size * size);
}

template <class Group>
__forceinline__ unsigned mask_of(const Group& group) {
    return static_cast<const coalesced_group&>(group).mask_;
}
template <class Group>
__forceinline__ coalesced_group labeled_partition(const Group& group, int label) {
    const unsigned mask = mask_of(group), mine = __match_any_sync(mask, label);
    const unsigned firsts = __ballot_sync(mask, (mine & detail::lanes_below()) == 0);   // the first lane of each part
    const unsigned first = mine & -mine;
    return coalesced_group(mine, static_cast<unsigned>(__builtin_popcount(firsts & (first - 1))), static_cast<unsigned>(__builtin_popcount(firsts)));
}
template <class Group>
__forceinline__ coalesced_group binary_partition(const Group& group, bool predicate) {
    const unsigned mask = mask_of(group), yes = __ballot_sync(mask, predicate);
    return coalesced_group(predicate ? yes : mask & ~yes, predicate, 2);
}

#if __CUDA_ARCH__ >= 900
namespace detail {

__forceinline__ unsigned volume(dim3 size) { return size.x * size.y * size.z; }
__forceinline__ dim3 clusters_of_grid() {
    const dim3 size = tiledmm_cluster_size();
    return dim3(gridDim.x / size.x, gridDim.y / size.y, gridDim.z / size.z);
}

}   // namespace detail

// The blocks of a cluster. Without clusters, each block is one.
class cluster_group {
public:
    struct arrival_token {};

    static __forceinline__ void sync() {
        tiledmm_arrive_at_cluster(0);
        tiledmm_wait_at_cluster(0);
    }
    static __forceinline__ arrival_token barrier_arrive() {
        tiledmm_arrive_at_cluster(0);
        return {};
    }
    static __forceinline__ void barrier_wait() { tiledmm_wait_at_cluster(0); }
    static __forceinline__ void barrier_wait(arrival_token&&) { tiledmm_wait_at_cluster(0); }

    static __forceinline__ dim3 block_index() { return tiledmm_cluster_block(); }
    static __forceinline__ unsigned block_rank() { return tiledmm_cluster_rank(); }
    static __forceinline__ dim3 dim_blocks() { return tiledmm_cluster_size(); }
    static __forceinline__ unsigned num_blocks() { return detail::volume(dim_blocks()); }
    static __forceinline__ dim3 thread_index() {
        const dim3 block = block_index();
        return dim3(block.x * blockDim.x + threadIdx.x, block.y * blockDim.y + threadIdx.y, block.z * blockDim.z + threadIdx.z);
    }
    static __forceinline__ unsigned thread_rank() { return block_rank() * detail::threads_of_block() + detail::thread_of_block(); }
    static __forceinline__ dim3 dim_threads() {
        const dim3 blocks = dim_blocks();
        return dim3(blocks.x * blockDim.x, blocks.y * blockDim.y, blocks.z * blockDim.z);
    }
    static __forceinline__ unsigned num_threads() { return num_blocks() * detail::threads_of_block(); }
    static __forceinline__ unsigned size() { return num_threads(); }

    // The same place in another block's shared memory; and the block in whose shared memory a place is.
    template <class T>
    static __forceinline__ T* map_shared_rank(T* shared, int rank) {
        return static_cast<T*>(tiledmm_map_generic(shared, static_cast<unsigned>(rank)));
    }
    static __forceinline__ unsigned query_shared_rank(const void* shared) { return tiledmm_rank_of_generic(shared); }

private:
    __forceinline__ cluster_group() {}
    friend cluster_group this_cluster();
};
__forceinline__ cluster_group this_cluster() { return {}; }
#endif

// All blocks, which wait for each other in a cooperative launch.
class grid_group {
public:
    struct arrival_token {};

    static __forceinline__ bool is_valid() { return tiledmm_is_cooperative(); }
    static __forceinline__ arrival_token barrier_arrive() { return {}; }   // the wait is for all
    static __forceinline__ void barrier_wait(arrival_token&&) { tiledmm_sync_grid(__COUNTER__); }
    static __forceinline__ unsigned long long size() { return detail::blocks_of_grid() * detail::threads_of_block(); }
    static __forceinline__ unsigned long long num_threads() { return size(); }
    static __forceinline__ unsigned long long num_blocks() { return detail::blocks_of_grid(); }
    static __forceinline__ unsigned long long block_rank() { return detail::block_of_grid(); }
    static __forceinline__ unsigned long long thread_rank() {
        return detail::block_of_grid() * detail::threads_of_block() + detail::thread_of_block();
    }
    static __forceinline__ dim3 group_dim() { return gridDim; }
    static __forceinline__ dim3 dim_blocks() { return gridDim; }
    static __forceinline__ dim3 block_index() { return blockIdx; }
#if __CUDA_ARCH__ >= 900
    static __forceinline__ dim3 dim_clusters() { return detail::clusters_of_grid(); }
    static __forceinline__ unsigned long long num_clusters() { return detail::volume(dim_clusters()); }
    static __forceinline__ dim3 cluster_index() { return tiledmm_cluster_index(); }
    static __forceinline__ unsigned long long cluster_rank() {
        const dim3 size = dim_clusters(), index = cluster_index();
        return index.x + size.x * (index.y + static_cast<unsigned long long>(size.y) * index.z);
    }
#endif
    static __forceinline__ void sync() { tiledmm_sync_grid(__COUNTER__); }

private:
    __forceinline__ grid_group() {}
    friend grid_group this_grid();
};
__forceinline__ grid_group this_grid() { return {}; }

template <class Group>
__forceinline__ void sync(const Group& group) {
    group.sync();
}
template <class Group>
__forceinline__ auto thread_rank(const Group& group) {
    return group.thread_rank();
}
template <class Group>
__forceinline__ auto group_size(const Group& group) {
    return group.size();
}

// Runs a function by one thread of the group.
template <class Group, class Function>
__forceinline__ void invoke_one(const Group& group, Function function) {
    if (group.thread_rank() == 0) function();
}

}   // namespace cooperative_groups
