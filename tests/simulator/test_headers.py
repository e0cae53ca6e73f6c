"""Tests of headers that kernels include: cooperative groups, wmma, pipelines, complex numbers, and C's."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.simulator.build import toolchain

RNG = np.random.default_rng(0)
INCLUDE = Path(toolchain.NATIVE) / "include"


@pytest.mark.parametrize("headers", [sorted(str(f.relative_to(INCLUDE)) for f in INCLUDE.rglob("*") if f.is_file())])
def test_all_headers_at_once(headers):
    text = "".join(f"#include <{header}>\n" for header in [*headers, "limits", "type_traits", "utility"])
    text += "__global__ void kernel(int* out) { out[0] = std::max(3, 4) + std::numeric_limits<short>::max(); }"
    out = np.zeros(1, np.int32)
    simulator.launch(text, 1, 1, (out,)).check()
    assert out[0] == 4 + 32767


def test_types_without_an_include():
    text = """
    __global__ void sizes(uint64_t* out, size_t n, int8_t small) {
        static_assert(sizeof(uint16_t) == 2 && sizeof(ptrdiff_t) == 8 && UINT8_MAX == 255 && LLONG_MIN < 0, "sizes");
        out[0] = n + SIZE_MAX + small;
        out[1] = UINT32_MAX;
        out[2] = FLT_MAX > 1e38f && DBL_MAX > 1e308 && INFINITY > FLT_MAX && NAN != NAN;
    }
    """
    out = np.zeros(3, np.uint64)
    simulator.launch(text, 1, 1, (out, 5, -1)).check()
    assert out.tolist() == [3, 2**32 - 1, 1]


def test_copies_of_memory_are_checked():
    text = "__global__ void copy(char* to, const char* from, int n) { memcpy(to, from, n); memset(to + 1, 7, 2); }"
    to, source = np.zeros(20, np.int8), np.arange(20, dtype=np.int8)
    simulator.launch(text, 1, 1, (to, source, 19)).check()
    assert to.tolist() == [0, 7, 7, *range(3, 19), 0]
    report = simulator.launch(text, 1, 1, (to, source, 21))
    assert [each.kind for each in report.findings] == ["global access out of bounds"]


# ---- cooperative groups ----

GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__device__ int total(cg::thread_group g, int* room, int value) {
    for (int i = g.size() / 2; i > 0; i /= 2) {
        room[g.thread_rank()] = value;
        g.sync();
        if (g.thread_rank() < i) value += room[g.thread_rank() + i];
        g.sync();
    }
    return value;
}
__global__ void kernel(long long* out) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    const int i = block.thread_rank();
    %s
}
"""


def by_thread(body: str, threads: int | tuple[int, ...] = 64, blocks: int = 1) -> list[int]:
    out = np.full(int(np.prod(threads)), -1, np.int64)
    simulator.launch(GROUPS % body, blocks, threads, (out,)).check()
    return out.tolist()


T = range(64)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("tile.thread_rank() + 10 * tile.size() + 1000 * tile.meta_group_rank() + 100000 * tile.meta_group_size()",
         [i % 8 + 80 + 1000 * (i // 8) + 800000 for i in T]),
        ("tile.shfl(i, 3)", [i // 8 * 8 + 3 for i in T]),
        ("tile.shfl_xor(i, 5)", [i ^ 5 for i in T]),
        ("tile.shfl_down(i, 2)", [i + 2 if i % 8 < 6 else i for i in T]),
        ("tile.shfl_up(i * 0.5, 1) * 2", [i - 1 if i % 8 else i for i in T]),
        ("tile.ballot(i % 8 == 2 || i > 60) + 1000 * tile.any(i == 9) + 2000 * tile.all(i < 8)",
         [(4 if i < 56 else 0b11100100) + 1000 * (i // 8 == 1) + 2000 * (i < 8) for i in T]),
        ("tile.match_any(i % 3)", [sum(1 << j for j in range(8) if (i // 8 * 8 + j) % 3 == i % 3) for i in T]),
        ("cg::reduce(tile, i, cg::plus<int>())", [64 * (i // 8) + 28 for i in T]),
        ("cg::reduce(tile, i, cg::greater<int>()) + 100 * cg::reduce(tile, i, cg::less<int>())",
        [i // 8 * 808 + 7 for i in T]),
        ("cg::inclusive_scan(tile, 1) * 10 + cg::exclusive_scan(tile, 1)", [(i % 8 + 1) * 10 + i % 8 for i in T]),
        ("cg::tiled_partition<2>(tile).meta_group_rank()", [i % 8 // 2 for i in T]),
        ("cg::tiled_partition(block, 16).thread_rank()", [i % 16 for i in T]),
        ("block.size() + block.group_dim().x + cg::this_grid().size() + cg::this_grid().thread_rank()",
        [192 + i for i in T]),
    ],
)  # fmt: skip
def test_groups(expression, expected):
    assert by_thread(f"out[i] = {expression};") == expected


def test_a_sum_over_any_group():
    body = (
        "__shared__ int room[64]; out[i] = total(block, room, i); out[i] += 10000 * total(tile, room + i / 8 * 8, 1);"
    )
    assert by_thread(body)[0] == 2016 + 80000


def test_coalesced_threads_and_partitions():
    body = """
    auto warp = cg::tiled_partition<32>(block);
    auto part = cg::binary_partition(warp, i % 3 == 0);
    const int sum = cg::reduce(part, i, cg::plus<int>());
    auto label = cg::labeled_partition(warp, i % 4);
    out[i] = sum + 10000 * part.size() + 1000000 * part.thread_rank() + 100000000ll * label.meta_group_rank();
    """
    got = by_thread(body, 32)
    for i in range(32):
        part = [j for j in range(32) if (j % 3 == 0) == (i % 3 == 0)]
        assert got[i] == sum(part) + 10000 * len(part) + 1000000 * part.index(i) + 100000000 * (i % 4)


def test_ranks_of_threads_with_three_indices():
    assert by_thread("out[i] = block.thread_rank() + 100 * (block.thread_index().z > 0);", (2, 3, 4)) == [
        i + 100 * (i >= 6) for i in range(24)
    ]


def test_a_tile_has_a_power_of_two_of_threads():
    text = GROUPS % "out[i] = cg::tiled_partition(block, 7).size();"
    (found,) = simulator.launch(text, 1, 32, (np.zeros(32, np.int64),)).findings
    assert "1, 2, 4, 8, 16 or 32" in found.message


def test_asynchronous_copies_by_a_group():
    text = """
    #include <cooperative_groups.h>
    #include <cooperative_groups/memcpy_async.h>
    __global__ void kernel(float* out, const float* in) {
        __shared__ alignas(16) float tile[96];
        auto block = cooperative_groups::this_thread_block();
        cooperative_groups::memcpy_async(block, tile, in, sizeof(tile));
        cooperative_groups::wait(block);
        for (int i = threadIdx.x; i < 96; i += blockDim.x) out[i] = tile[95 - i];
    }
    """
    out, source = np.zeros(96, np.float32), np.arange(96, dtype=np.float32)
    simulator.launch(text, 1, 16, (out, source)).check()
    assert out.tolist() == source[::-1].tolist()


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_pipelines(target):
    text = """
    #include <cuda_pipeline.h>
    __global__ void kernel(int4* out, const int4* in) {
        __shared__ int4 tile[2][32];
        const int i = threadIdx.x;
        __pipeline_memcpy_async(&tile[0][i], &in[i], 16);
        __pipeline_commit();
        __pipeline_memcpy_async(&tile[1][i], &in[i], 16, 8);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        out[i] = tile[0][i];
        __pipeline_wait_prior(0);
        out[32 + i] = tile[1][i];
    }
    """
    out, source = np.zeros((64, 4), np.int32), RNG.integers(0, 99, (32, 4), dtype=np.int32)
    simulator.launch(text, 1, 32, (out, source), target=target).check()
    np.testing.assert_array_equal(out, np.concatenate([source, source * [1, 1, 0, 0]]))


# ---- wmma ----


def padded(matrix: np.ndarray) -> np.ndarray:
    """Pad a matrix's rows to a multiple of 16 bytes."""
    return np.ascontiguousarray(np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % (16 // matrix.itemsize)))))


def product(m: int, n: int, k: int, types: tuple[str, str], layouts: tuple[str, str], a, b, c, target: str = "sm_80"):
    element, accumulator = types
    stored = {"precision::tf32": "float"}.get(element, element)
    given = [padded(each if layout == "row" else each.T) for each, layout in zip((a, b), layouts, strict=True)]
    lda, ldb = (each.shape[1] for each in given)
    text = f"""
    #include <mma.h>
    using namespace nvcuda::wmma;
    __global__ void multiply({accumulator}* d, const {stored}* a, const {stored}* b, const {accumulator}* c) {{
        fragment<matrix_a, {m}, {n}, {k}, {element}, {layouts[0]}_major> fa;
        fragment<matrix_b, {m}, {n}, {k}, {element}, {layouts[1]}_major> fb;
        fragment<accumulator, {m}, {n}, {k}, {accumulator}> fc;
        load_matrix_sync(fa, a, {lda});
        load_matrix_sync(fb, b, {ldb});
        load_matrix_sync(fc, c, {n}, mem_row_major);
        for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];
        mma_sync(fc, fa, fb, fc);
        store_matrix_sync(d, fc, {m}, mem_col_major);
    }}
    """
    d = np.zeros((n, m), c.dtype)
    report = simulator.launch(text, 1, 32, (d, *given, c), target=target)
    report.check()
    return d.T, report


@pytest.mark.parametrize(
    ("shape", "types", "dtypes"),
    [
        *(
            pytest.param(shape, types, dtypes, marks=slow_unless((i, j) in {(0, 0), (1, 1), (2, 2), (0, 4)}))
            for i, shape in enumerate([(16, 16, 16), (32, 8, 16), (8, 32, 16)])
            for j, (types, dtypes) in enumerate([
                (("half", "float"), (np.float16, np.float32)), (("signed char", "int"), (np.int8, np.int32)),
                (("half", "half"), (np.float16, np.float16)), (("unsigned char", "int"), (np.uint8, np.int32)),
                (("__nv_bfloat16", "float"), (ml_dtypes.bfloat16, np.float32)),
            ])
        ),
        ((16, 16, 8), ("precision::tf32", "float"), (np.float32, np.float32)),
        ((8, 8, 4), ("double", "double"), (np.float64, np.float64)),
    ],
)  # fmt: skip
def test_products_of_small_integers_are_exact(shape, types, dtypes):
    m, n, k = shape
    low = 0 if dtypes[0] is np.uint8 else -4
    a, b = RNG.integers(low, 5, (m, k)), RNG.integers(low, 5, (k, n))
    c = RNG.integers(-4, 5, (m, n))
    given = [a.astype(dtypes[0]), b.astype(dtypes[0]), c.astype(dtypes[1])]
    if dtypes[0] is ml_dtypes.bfloat16:
        given[:2] = [each.view(np.uint16) for each in given[:2]]
    for layouts in (("row", "col"), ("col", "row")):
        d, report = product(m, n, k, types, layouts, *given)
        np.testing.assert_array_equal(d.astype(np.int64), a @ b + 2 * c)
    assert report.flops == (0 if types[1] == "int" else 2 * m * n * k + m * n)  # with the sums in the kernel itself


@pytest.mark.parametrize(
    ("at", "ldm", "rule"),
    [(0, 12, "multiple of 16"), (8, 16, "multiple of 32")],
)
def test_matrices_are_aligned(at, ldm, rule):
    text = f"""
    #include <mma.h>
    using namespace nvcuda::wmma;
    __global__ void load(const half* a) {{
        fragment<matrix_a, 16, 16, 16, half, row_major> f;
        load_matrix_sync(f, a + {at}, {ldm});
    }}
    """
    (found,) = simulator.launch(text, 1, 32, (np.zeros(300, np.float16),)).findings
    assert found.kind == "call that cannot be made" and rule in found.message


@pytest.mark.parametrize(
    ("load", "store", "kind", "line"),
    [
        ("load_matrix_sync(f, a, 16, L);", "store_matrix_sync(a, f, 16, L);", None, 0),
        ("if (lane < 16) load_matrix_sync(f, a, 16, L);", "store_matrix_sync(a, f, 16, L);", "lanes of a warp differ",
         7),
        ("load_matrix_sync(f, a, 16, L);", "if (lane) store_matrix_sync(a, f, 16, L);", "warp not converged", 8),
        ("if (lane == 3) return; load_matrix_sync(f, a, 16, L);", "", "warp not converged", 7),
        ("load_matrix_sync(f, lane == 9 ? a + 8 : a, 16, L);", "", "call that cannot be made", 7),
        ("load_matrix_sync(f, a, lane == 9 ? 32 : 16, L);", "", "call that cannot be made", 7),
    ],
)  # fmt: skip
def test_all_lanes_load_and_store_one_matrix(load, store, kind, line):
    text = f"""#include <mma.h>
    using namespace nvcuda::wmma;
    #define L mem_row_major
    __global__ void k(float* a) {{
        const int lane = threadIdx.x;
        fragment<accumulator, 16, 16, 16, float> f;
        {load}
        {store}
    }}"""
    found = simulator.launch(text, 1, 32, (np.zeros((32, 32), np.float32),)).findings
    places = {(each.kind, at) for each in found for at in (each.line, each.other_line)}
    assert (kind, line) in places if kind else not found


def test_fragments_have_as_many_elements_as_on_a_gpu():
    text = """
    #include <mma.h>
    using namespace nvcuda::wmma;
    __global__ void count(int* out) {
        out[0] = fragment<matrix_a, 16, 16, 16, half, row_major>::num_elements;
        out[1] = fragment<matrix_b, 8, 32, 16, half, row_major>::num_elements;
        out[2] = fragment<matrix_a, 8, 32, 16, signed char, row_major>::num_elements;
        out[3] = fragment<accumulator, 16, 16, 8, float>::num_elements;
        out[4] = fragment<matrix_b, 8, 8, 4, double, col_major>::num_elements;
        fragment<accumulator, 16, 16, 16, half> f;
        fill_fragment(f, __float2half(2.0f));
        out[5] = f.x[7];
        out[6] = __float_as_uint(__float_to_tf32(1.0f + 0x1p-11f)) == __float_as_uint(1.0f + 0x1p-10f);
    }
    """
    out = np.zeros(7, np.int32)
    simulator.launch(text, 1, 1, (out,)).check()
    assert out.tolist() == [16, 16, 4, 8, 1, 2, 1]


def test_complex_numbers():
    text = """
    #include <cuComplex.h>
    __global__ void kernel(cuDoubleComplex* out, cuFloatComplex x, cuDoubleComplex y) {
        out[0] = cuCmul(y, cuCdiv(y, cuConj(y)));
        out[1] = cuCadd(cuComplexFloatToDouble(cuCmulf(x, x)), make_cuDoubleComplex(cuCabs(y), cuCrealf(x)));
    }
    """
    out = np.zeros(2, np.complex128)
    simulator.launch(text, 1, 1, (out, np.complex64(1 + 2j), 3 + 4j)).check()
    np.testing.assert_allclose(out, [(3 + 4j) ** 2 / (3 - 4j), (1 + 2j) ** 2 + 5 + 1j], rtol=1e-15)
