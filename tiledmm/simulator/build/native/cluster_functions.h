// Functions of CUDA C about the clusters of a launch.
// Depends on: asynchronous.h, intrinsics.h, runtime.h
#pragma once

#include "asynchronous.h"
#include "intrinsics.h"
#include "runtime.h"

#if __CUDA_ARCH__ >= 900
__forceinline__ unsigned __clusterDimIsSpecified() { return tiledmm_has_cluster(); }
__forceinline__ dim3 __clusterDim() { return tiledmm_cluster_size(); }
__forceinline__ dim3 __clusterRelativeBlockIdx() { return tiledmm_cluster_block(); }
__forceinline__ dim3 __clusterIdx() { return tiledmm_cluster_index(); }
__forceinline__ dim3 __clusterGridDimInClusters() {
    const uint3 size = tiledmm_cluster_size(), grid = tiledmm_grid_size();
    return dim3(grid.x / size.x, grid.y / size.y, grid.z / size.z);
}
__forceinline__ unsigned __clusterRelativeBlockRank() { return tiledmm_cluster_rank(); }
__forceinline__ unsigned __clusterSizeInBlocks() {
    const uint3 size = tiledmm_cluster_size();
    return size.x * size.y * size.z;
}

__forceinline__ void* __cluster_map_shared_rank(const void* shared, unsigned rank) { return tiledmm_map_generic(shared, rank); }
__forceinline__ unsigned __cluster_query_shared_rank(const void* shared) { return tiledmm_rank_of_generic(shared); }
__forceinline__ void __cluster_barrier_arrive() { tiledmm_arrive_at_cluster(0); }
__forceinline__ void __cluster_barrier_arrive_relaxed() { tiledmm_arrive_at_cluster(1); }
__forceinline__ void __cluster_barrier_wait() { tiledmm_wait_at_cluster(0); }
__forceinline__ void __threadfence_cluster() { tiledmm_fence(1); }
#endif
