"""Clusters of a launch: what the launch and the kernel say about their size, and what fits."""

from __future__ import annotations

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.errors import ConfigError
from tiledmm.simulator.build.translation.syntax import has_c_linkage, kernels_in
from tiledmm.simulator.execute.clusters import whole_clusters

BODY = "k(int* x) { if (threadIdx.x == 0) x[blockIdx.x + gridDim.x * blockIdx.y] = 1; }"


def launch(head: str, grid: object = 8, **options: object) -> None:
    x = np.zeros(64, np.int32)
    simulator.launch(f"{head} {BODY}", grid, 2, (x,), **options).check()  # type: ignore[arg-type]
    assert x.sum() == np.prod(grid)


@pytest.mark.parametrize(
    ("head", "name", "cluster"),
    [
        ("__global__ void __cluster_dims__(2, 3, 1)", "k", (2, 3, 1)),
        ("__cluster_dims__(2) __global__ void", "k", (2, 1, 1)),
        ("#define N 2\nconstexpr int M = 2;\n__global__ void __launch_bounds__(32) __cluster_dims__(N, M * 2)", "k",
         (2, 4, 1)),
        ("template <int N> __global__ void __cluster_dims__(N * 2, 1, 1)", "k<2>", (4, 1, 1)),
        ("namespace a { constexpr int N = 4; __global__ void __cluster_dims__(1, N, 1)", "a::k", (1, 4, 1)),
    ],
)  # fmt: skip
def test_the_size_that_a_kernel_states(head, name, cluster):
    text = f"{head} {BODY}" + ("}" if "namespace" in head else "")
    x = np.zeros(64, np.int32)
    simulator.launch(text, cluster, 2, (x,), name=name).check()
    assert (x[: np.prod(cluster)] == 1).all()
    simulator.launch(text, cluster, 2, (x,), name=name, cluster=cluster).check()
    for axis, size in enumerate(cluster):
        if size > 1:
            grid = [*cluster]
            grid[axis] += 1
            with pytest.raises(ConfigError, match=f"{'xyz'[axis]} must be a multiple of {size}"):
                simulator.launch(text, grid, 2, (x,), name=name)
    with pytest.raises(ConfigError, match=r"__cluster_dims__ of .*got 1 x 2 x 1"):
        simulator.launch(text, 8, 2, (x,), name=name, cluster=(1, 2))
    with pytest.raises(ConfigError, match=r"9\.0"):
        simulator.launch(text, cluster, 2, (x,), name=name, target="sm_80")


@pytest.mark.parametrize(
    ("grid", "cluster", "said"),
    [
        (8, 3, "8 x 1 x 1 blocks does not fit clusters of 3 x 1 x 1.* such as 9"),
        ((4, 3), (2, 2), "along y must be a multiple of 2, such as 4"),
        (64, 32, "from 1 to 16 blocks; got 32 x 1 x 1"),
        (8, (2, 0), "from 1 to 16 blocks; got 2 x 0 x 1"),
        (8, "two", "cluster must be one to three integers"),
    ],
)
def test_sizes_that_do_not_fit(grid, cluster, said):
    with pytest.raises(ConfigError, match=said):
        launch("__global__ void", grid, cluster=cluster)


def test_the_size_that_a_launch_states():
    launch("__global__ void", cluster=4)
    launch("__global__ void", (4, 4), cluster=np.array([2, 2]))
    launch("__global__ void", cluster=1, cooperative=True)
    with pytest.raises(ConfigError, match="cooperative"):
        launch("__global__ void", cluster=2, cooperative=True)


def test_a_raw_kernel_has_the_clusters_of_its_text():
    text = f'extern "C" __global__ void __cluster_dims__(2, 1, 1) {BODY}'
    kernel, x = simulator.RawKernel(text, "k"), np.zeros(4, np.int32)
    kernel((4,), (2,), (x,))
    assert (x == 1).all()
    with pytest.raises(ConfigError, match="multiple of 2"):
        kernel((3,), (2,), (x,))


def test_attributes_are_no_names():
    text = f'extern "C" __cluster_dims__(2, 1, 1) __global__ void {BODY}'
    assert kernels_in(f"__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(8) {BODY}") == ["k"]
    assert kernels_in(text) == ["k"] and has_c_linkage(text, "k")


def test_chosen_blocks_are_rounded_up_to_whole_clusters():
    assert whole_clusters(None, (4, 4, 1), (2, 2, 1)) is None
    assert whole_clusters((3, 1), (4, 4, 1), (0, 0, 0)) == (3, 1)
    assert whole_clusters((), (4, 4, 1), (2, 2, 1)) == ()
    assert whole_clusters((7, 1), (4, 4, 1), (2, 2, 1)) == (0, 1, 4, 5, 2, 3, 6, 7)
    assert whole_clusters((13,), (2, 2, 4), (1, 2, 2)) == (9, 11, 13, 15)


GROUPS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(2, 2, 1) k(int* x) {
    __shared__ int mine;
    const cg::cluster_group cluster = cg::this_cluster();
    const cg::grid_group grid = cg::this_grid();
    const unsigned rank = cluster.block_rank(), block = blockIdx.x + gridDim.x * blockIdx.y;
    if (threadIdx.x == 0) mine = 100 * block;
    cluster.sync();
    int* const next = cluster.map_shared_rank(&mine, (rank + 1) % cluster.num_blocks());
    int* const to = x + 12 * block;
    if (threadIdx.x == 1) {
        to[0] = *next;
        to[1] = cluster.query_shared_rank(next);
        to[2] = cluster.block_index().x + 10 * cluster.block_index().y;
        to[3] = cluster.dim_blocks().x + 10 * cluster.dim_blocks().y + 100 * cluster.dim_blocks().z;
        to[4] = cluster.thread_rank();
        to[5] = cluster.num_threads();
        to[6] = grid.cluster_rank() + 10 * grid.num_clusters();
        to[7] = __clusterIdx().x + 10 * __clusterIdx().y + 100 * __clusterGridDimInClusters().x;
        to[8] = *static_cast<int*>(__cluster_map_shared_rank(&mine, 3));
        to[9] = __clusterDimIsSpecified() + 10 * __clusterSizeInBlocks() + 100 * __clusterRelativeBlockRank();
        to[10] = cluster.dim_threads().x + 10 * cluster.dim_threads().y;
        to[11] = cluster.thread_index().x + 10 * cluster.thread_index().y;
    }
    cluster.barrier_arrive();
    cluster.barrier_wait();
}
"""


def test_cluster_groups():
    x = np.zeros((2, 4, 12), np.int32)
    simulator.launch(GROUPS, (4, 2), 2, (x,)).check()
    for column in range(4):
        for row in range(2):
            rank, first = column % 2 + 2 * row, column - column % 2
            after = (rank + 1) % 4
            assert x[row, column].tolist() == [
                100 * (first + after % 2 + 4 * (after // 2)), after, column % 2 + 10 * row, 122, 2 * rank + 1, 8,
                first // 2 + 20, first // 2 + 200, 100 * (first + 1 + 4), 41 + 100 * rank, 24,
                2 * (column % 2) + 1 + 10 * row,
            ]  # fmt: skip


UNSET = """
#include <cooperative_groups.h>
__global__ void __cluster_dims__(2, 2, 1) k(int* x) {
    __shared__ int mine;
    const auto cluster = cooperative_groups::this_cluster();
    const int block = blockIdx.x + gridDim.x * blockIdx.y;
    int unset;
    if (block != 5) unset = 3;
    if (threadIdx.x == 0) mine = block;
    cluster.sync();
    if (threadIdx.x == 0) x[block] = *cluster.map_shared_rank(&mine, cluster.block_rank() ^ 1) + unset;
    cluster.sync();
}
"""


@pytest.mark.parametrize("threads", ["forward", "random", "preemptive"])
def test_full_checks_run_clusters_again(threads):
    x = np.zeros(16, np.int32)
    report = simulator.launch(UNSET, (4, 4), 32, (x,), checks="full", threads=threads)
    (found,) = report.findings
    assert (found.kind, found.block, found.other_line) == ("variable read before it is set", (1, 1, 0), 7)
    right = [block - block % 2 + (block + 1) % 2 + 3 for block in range(16)]
    wrong = UNSET.replace("int unset;", "int unset = 4;")
    (found,) = simulator.launch(wrong, (4, 4), 32, (x,), expected={"x": right}, threads=threads).findings
    assert (found.kind, found.block) == ("wrong result", (1, 1, 0))
