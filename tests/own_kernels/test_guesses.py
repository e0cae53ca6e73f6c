"""Tests of launches, sizes and subscripts that are read from a kernel's text, without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.own_kernels.test_roles import parameters
from tests.simulator.corpus import FOLDER
from tiledmm.hardware.architectures import find_target
from tiledmm.own_kernels.chosen_kernel import chosen_kernels
from tiledmm.own_kernels.data_flow import counter_arrays, index_arrays
from tiledmm.own_kernels.guessed_launch import GuessedLaunch, guesses
from tiledmm.own_kernels.indices import Indices
from tiledmm.own_kernels.roles import roles_of
from tiledmm.simulator.build.program.program import Program

MATMUL = """
template <int N> __device__ int at(int row, int col, int width) {{ return row * width + col * N; }}
#define INDEX(i, j, ld) ((i) * (ld) + (j))
constexpr int T = 8;
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {{
    {0} {{
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        {1}
    }}
}}
"""
SIZES = {"M": 96, "N": 160, "K": 64}


def read(source: str | Path) -> tuple[Indices, list]:
    program = Program.read(source, target=find_target("sm_90"))
    chosen = chosen_kernels(program, None)[0]
    return Indices(program, chosen), parameters(", ".join(" ".join(each) for each in chosen.declaration.parameters))


def launches(source: str | Path) -> list[GuessedLaunch]:
    indices, found = read(source)
    return list(guesses(indices, roles_of("matmul", found, has_loop=True)[0], found))


@pytest.mark.parametrize(
    ("rows", "store"),
    [
        ("int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;",
         "C[row * N + col]"),
        ("const auto row = blockDim.y * blockIdx.y + threadIdx.y; auto col = threadIdx.x + (blockDim.x * blockIdx.x);",
         "C[INDEX(row, col, N)]"),
        ("int bx = blockIdx.x, by = (int)blockIdx.y; const unsigned row = (by * (int)blockDim.y) + (threadIdx).y; "
         "size_t col = static_cast<size_t>(bx) * blockDim.x + threadIdx.x;", "*(C + (size_t)row * N + col)"),
        ("dim3 b = blockIdx, t = threadIdx; int row{(int)(b.y * blockDim.y + t.y)}; int col(b.x * blockDim.x + t.x); "
         "float* own = &C[at<1>(row, 0, N)];", "own[col]"),
        ("int row = blockIdx.y * blockDim.y + threadIdx.y; int col = blockIdx.x * blockDim.x + threadIdx.x; "
         "C += row * N;", "C[col]"),
    ],
)  # fmt: skip
def test_indices_in_many_spellings(rows, store):
    first = launches(MATMUL.format(rows, f"if (row < M && col < N) {store} = sum;"))[0]
    assert first.evident
    assert first.geometry(SIZES).block == (16, 16, 1)
    assert first.geometry(SIZES).grid == (10, 6, 1)


@pytest.mark.parametrize(
    ("rows", "store", "grid", "block"),
    [
        # Columns along y, tiles of the kernel's own.
        ("int row = blockIdx.x * T + threadIdx.x, col = blockIdx.y * T + threadIdx.y;", "C[row * N + col]", (12, 20, 1),
         (8, 8, 1)),
        # C by columns.
        ("int row = blockIdx.x * T + threadIdx.x, col = blockIdx.y * T + threadIdx.y;", "C[col * M + row]", (12, 20, 1),
         (8, 8, 1)),
        # One element per thread, counted along x, and one per warp.
        ("int i = blockIdx.x * blockDim.x + threadIdx.x, row = i / N, col = i % N;", "C[i]", (60, 1, 1), (256, 1, 1)),
        ("int i = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, row = i / N, col = i % N;", "C[i]", (1920, 1, 1),
         (256, 1, 1)),
        # A row per thread, and a row per block.
        ("int row = blockIdx.x * blockDim.x + threadIdx.x; for (int col = 0; col < N; ++col)", "C[row * N + col]",
         (1, 1, 1), (256, 1, 1)),
        ("int row = blockIdx.x; for (int col = threadIdx.x; col < N; col += 64)", "C[row * N + col]", (96, 1, 1),
         (64, 1, 1)),
        # Tiles of 32 x 32, one row of them after the other, by 8 x 32 threads.
        ("int tiles = (N + 31) / 32, row = blockIdx.x / tiles * 32 + threadIdx.x / 32, "
         "col = blockIdx.x % tiles * 32 + threadIdx.x % 32; for (int i = 0; i < 32; i += 8)", "C[(row + i) * N + col]",
         (15, 1, 1), (256, 1, 1)),
        # Four columns per thread, side by side.
        ("int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 64 + threadIdx.x * 4;", "C[row * N + col]",
         (3, 6, 1), (16, 16, 1)),
        # Rows of a thread that are 8 apart.
        ("int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x; "
         "for (int j = 0; j < 32; j += 8)", "C[(row + j) * N + col]", (5, 3, 1), (32, 8, 1)),
        ("int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;",
         "C[row * N + col] = sum; C[(row + 16) * N + col]", (5, 3, 1), (32, 16, 1)),
    ],
)  # fmt: skip
def test_what_blocks_count(rows, store, grid, block):
    first = launches(MATMUL.format(rows, f"{store} = sum;"))[0]
    assert first.evident
    assert (first.geometry(SIZES).grid, first.geometry(SIZES).block) == (grid, block)


def test_a_loop_over_the_grid_has_fewer_blocks():
    loop = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < M * N; i += gridDim.x * blockDim.x)"
    first = launches(MATMUL.format(f"{loop}", "C[i] = sum;"))[0]
    assert first.evident
    assert first.geometry(SIZES).grid == (20, 1, 1)


@pytest.mark.parametrize(
    ("file", "threads", "tile"),
    [
        ("kernels/sgemm_2d_tile", 64, (32, 32)),
        ("kernels/sgemm_warp_tile", 64, (32, 64)),
        ("kernels/sgemm_vectorized", 64, (32, 32)),
        ("kernels/sgemm_cp_async", 64, (16, 16)),
        ("kernels/wmma_gemm", 32, (16, 16)),
        ("held_out/kernels/wmma_edges", 32, (16, 16)),
        ("corpus/modern", 128, (32, 16)),
    ],
)
def test_tiles_with_several_elements_per_thread(file, threads, tile):
    first = launches(FOLDER.parent / f"{file}.cu")[0]
    rows, columns = tile
    geometry = first.geometry({"M": 4 * rows, "N": 3 * columns, "K": 64})
    assert (geometry.grid, geometry.block) == ((3, 4, 1), (threads, 1, 1))


@pytest.mark.parametrize("part", ["threadIdx.z", "blockIdx.z * 32"])
def test_parts_of_k_leave_the_launch_open(part):
    rows = "int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;"
    assert not any(
        each.evident for each in launches(MATMUL.format(f"{rows} int k0 = {part};", "C[row * N + col] = sum;"))
    )


def test_no_launch_where_the_text_does_not_say_what_threads_store():
    assert launches(MATMUL.format("int row = order[threadIdx.x], col = 0;", "C[row] = sum;")) == []


@pytest.mark.parametrize(
    ("guard", "has"),
    [
        ("if (row < M && col < N)", True), ("if (!(M <= (int)row))", True), ("bool inside = row < (M);", True),
        ("", False), ("for (int i = 0; i < N; ++i)", False), ("if (K > 3)", False),
    ],
)  # fmt: skip
def test_guards(guard, has):
    indices, _ = read(MATMUL.format("int row = threadIdx.y, col = threadIdx.x;", f"{guard} C[row * N + col] = sum;"))
    assert indices.compares({"M", "N"}) == has


@pytest.mark.parametrize(
    ("code", "subscripts", "counters"),
    [
        ("y[i] = x[p[i]];", {"p": True}, set()),
        ("int key = p[i]; atomicAdd(&q[key], 1);", {"p": True}, {"q"}),
        ("for (int e = p[i]; e < p[i + 1]; ++e) y[i] += x[q[e]];", {"p": True, "q": True}, set()),
        ("float own[8]; own[p[i]] = x[i];", {"p": False}, set()),
        ("y[i] = x[i] + p[i] * threadIdx.x;", {}, set()),
    ],
)
def test_arrays_of_subscripts_and_counters(code, subscripts, counters):
    indices, found = read(
        "__global__ void k(const float* x, float* y, const int* p, int* q, int n) "
        f"{{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {{ {code} }} }}"
    )
    named = {found[at].name: known for at, known in index_arrays(indices, found).items()}
    assert named == subscripts
    assert {each for each in counter_arrays(indices) if each in "xypq"} == counters
