"""Tests of lanes of a warp that have ended: others do not wait for them, and their values are undefined."""

from __future__ import annotations

import numpy as np
import pytest

from tiledmm import simulator

ENDED = "shuffle from a lane that has ended"


def launch(body: str, *, threads: int = 32, order: str = "forward") -> tuple[list[int], simulator.Report]:
    text = f"__global__ void kernel(int* out) {{\nconst int lane = threadIdx.x;\n{body}\n}}"
    out = np.full(threads, -1, np.int32)
    return out, simulator.launch(text, 1, threads, (out,), threads=order)


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("__ballot_sync(~0u, 1)", 0xFFFFF), ("__any_sync(~0u, lane == 25)", 0), ("__all_sync(~0u, lane < 20)", 1),
        ("__uni_sync(~0u, lane < 20)", 1), ("__match_any_sync(~0u, 7)", 0xFFFFF), ("__reduce_add_sync(~0u, 1)", 20),
        ("__reduce_min_sync(~0u, lane + 3)", 3), ("__shfl_sync(~0u, lane, 7)", 7), ("__popc(__activemask())", 20),
        ("(__syncwarp(), 5)", 5), ("(__syncwarp(1u << lane | 0xff000000u), 5)", 5),
    ],
)  # fmt: skip
def test_lanes_that_have_ended_are_not_waited_for(expression, expected, order):
    out, report = launch(f"if (lane >= 20) return;\nout[lane] = {expression};", order=order)
    report.check()
    assert out.tolist() == [expected] * 20 + [-1] * 12


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_a_lane_that_ends_later_releases_those_that_wait(order):
    body = """volatile int count = 0;
    if (lane == 3) {
        for (int i = 0; i < 100; ++i) count = count + out[3];
        return;
    }
    out[lane] = __ballot_sync(~0u, lane & 1);
    __syncwarp();
    if (lane == 4) return;
    out[lane] += __reduce_add_sync(~0u, 0) + __reduce_or_sync(~0u, 1);"""
    out, report = launch(body, order=order)
    report.check()
    votes = np.uint32(0xAAAAAAA2).astype(np.int32)
    assert out.tolist() == [-1 if i == 3 else votes + (i != 4) for i in range(32)]


def test_what_has_ended_is_ordered_before_no_barrier_of_the_warp():
    body = """__shared__ int s[32];
    s[lane] = lane;
    if (lane == 9) return;
    __syncwarp();
    out[lane] = s[{at}];"""
    launch(body.replace("{at}", "lane == 8 ? 7 : lane ^ 1"))[1].check()
    _, report = launch(body.replace("{at}", "9"))
    assert [(each.kind, each.line) for each in report.findings] == [("race on shared memory", 7)]


@pytest.mark.parametrize(
    ("expression", "lanes"),
    [
        ("__shfl_sync(~0u, lane, 20)", 20), ("__shfl_down_sync(~0u, lane, 16)", 12),
        ("__shfl_up_sync(~0u, lane, 1)", 0), ("__shfl_xor_sync(~0u, lane, 16)", 12),
        ("__shfl_sync(~0u, lane, 19)", 0),
    ],
)  # fmt: skip
def test_a_value_from_a_lane_that_has_ended_is_undefined(expression, lanes):
    _, report = launch(f"if (lane >= 20) return;\nout[lane] = {expression};")
    found = [(each.kind, each.line, each.count) for each in report.findings]
    assert found == ([(ENDED, 4, lanes)] if lanes else [])


def test_a_lane_may_end_after_others_took_its_value():
    out, report = launch("const int taken = __shfl_sync(~0u, lane * 3, 5);\nif (lane == 5) return;\nout[lane] = taken;")
    report.check()
    assert out.tolist() == [-1 if i == 5 else 15 for i in range(32)]


def test_a_lane_that_waits_elsewhere_is_waited_for():
    _, report = launch("if (lane < 8) __syncthreads(); else if (lane > 20) return; else __syncwarp();\nout[lane] = 1;")
    (found,) = report.findings
    assert (found.kind, found.line, found.other_line) == ("warp not converged", 3, 3)


def test_lanes_at_different_places_are_named_where_some_are_left_over():
    """Check that exchanges of one kind meet at any places, as on a GPU, until some lane waits alone."""
    body = """int sum = lane;
    if (lane < 16)
        sum += __shfl_down_sync(~0u, sum, 8);
    sum += __shfl_down_sync(~0u, sum, 4);
    out[lane] = sum;"""
    _, report = launch(body)
    (found,) = [each for each in report.findings if each.kind == "lanes of a warp differ"]
    assert {found.line, found.other_line} == {5, 6}
    both = body.replace("if (lane < 16)", "if (lane >= 16) sum += __shfl_down_sync(~0u, sum, 8); else")
    _, report = launch(both)
    report.check()


def test_no_lane_may_end_before_a_product_on_tensor_cores():
    text = """#include <mma.h>
    using namespace nvcuda;
    __global__ void kernel(const __half* a, float* c) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> y;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
        wmma::fill_fragment(z, 0.0f);
        wmma::load_matrix_sync(x, a, 16);
        wmma::load_matrix_sync(y, a, 16);
        if (threadIdx.x == 7) return;
        wmma::mma_sync(z, x, y, z);
        wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);
    }"""
    report = simulator.launch(text, 1, 32, (np.ones((16, 16), np.float16), np.zeros((16, 16), np.float32)))
    (found,) = report.findings
    assert (found.kind, found.line) == ("warp not converged", 11)
    assert "thread (7, 0) has ended" in found.message


@pytest.mark.parametrize(
    ("body", "found", "warned"),
    [
        ("if (lane >= 16) return;\n__syncthreads();\nout[lane] = 1;", [], [4]),
        ("if (lane < 16) __syncthreads();\nout[lane] = 1;", [], [3]),
        ("if (lane < 16) __syncthreads();\nout[lane] = 1;\n__syncthreads();", [("barrier not reached by all", 3)], [5]),
        ("__shared__ int s;\nif (lane < 16) { s = 1;\n__syncthreads(); }\nout[lane] = s;",
         [("race on shared memory", 6)], [5]),
        ("if (lane < 16) { __syncthreads(); atomicAdd(out, 1); }\nelse while (atomicAdd(out, 0) < 15) {}",
         [("thread that waits forever", 4)], []),
    ],
)  # fmt: skip
def test_a_barrier_in_a_branch_is_an_error_unless_the_other_threads_end(body, found, warned):
    _, report = launch(body, threads=64)
    assert [(each.kind, each.line) for each in report.findings] == found
    kind = "barrier not reached by threads that have ended"
    assert [each.line for each in report.warnings if each.kind == kind] == warned
