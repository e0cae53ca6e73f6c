"""Tests of votes, matches and reductions of warps. Shuffles are in test_language.py."""

from __future__ import annotations

import numpy as np
import pytest

from tiledmm import simulator

LANES = list(range(32))


def by_lane(
    expression: str, *, threads: int = 32, before: str = "", kind: str = "long long", target: str = "sm_90"
) -> list[int]:
    text = f"""__global__ void kernel({kind}* out) {{
    const int lane = threadIdx.x;
    {before}
    out[lane] = {expression};
    }}"""
    out = np.full(threads, -1, {"long long": np.int64, "double": np.float64}[kind])
    simulator.launch(text, 1, threads, (out,), target=target).check()
    return out.tolist()


def mask(lanes) -> int:
    return sum(1 << lane for lane in lanes)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("__activemask() >> lane & 1", [1] * 32),
        ("__match_any_sync(~0u, lane % 3)", [mask(range(i % 3, 32, 3)) for i in LANES]),
        ("__match_any_sync(~0u, (long long)(lane % 2) << 40)", [mask(range(i % 2, 32, 2)) for i in LANES]),
        ("__match_any_sync(~0u, lane / 16 + 0.5)", [0xFFFF << i // 16 * 16 for i in LANES]),
        ("(all = __match_all_sync(~0u, 5, &same), all + same)", [2**32] * 32),
        ("(all = __match_all_sync(~0u, lane == 3, &same), all + same)", [0] * 32),
        ("__reduce_add_sync(~0u, lane)", [496] * 32),
        ("__reduce_add_sync(~0u, -lane)", [-496] * 32),
        ("__reduce_min_sync(~0u, lane - 7)", [-7] * 32),
        ("__reduce_max_sync(~0u, (unsigned)lane - 7)", [2**32 - 1] * 32),
        ("__reduce_and_sync(~0u, lane | 0x40u)", [0x40] * 32),
        ("__reduce_or_sync(~0u, 1u << lane)", [2**32 - 1] * 32),
        ("__reduce_xor_sync(~0u, lane | 0u)", [0] * 32),
        ("__fns(0x55u, 0, 3) + 100 * __fns(0x55u, 6, -2)", [404] * 32),
        ("__uni_sync(~0u, lane < 40) + 2 * __uni_sync(~0u, lane < 4)", [1] * 32),
        ("__shfl_sync(~0u, (unsigned char)(lane + 250), 31)", [25] * 32),
        ("__shfl_down_sync(~0u, lane, 33)", [i + 1 if i < 31 else 31 for i in LANES]),
        ("__popc(__ballot_sync(~0u, lane & 64)) + __all_sync(~0u, lane + 1)", [1] * 32),
    ],
)
def test_results(expression, expected):
    assert by_lane(expression, before="long long all; int same;") == expected


def test_parts_of_a_warp_vote_on_their_own():
    body = """long long v;
    if (lane % 2) v = __reduce_add_sync(0xaaaaaaaau, lane); else v = __ballot_sync(0x55555555u, lane > 15);"""
    assert by_lane("v", before=body) == [256 if i % 2 else 0x55550000 for i in LANES]


@pytest.mark.parametrize("threads", [40, 7])
def test_the_last_warp_of_a_block_may_be_partial(threads):
    last = [i for i in range(threads) if i // 32 == threads // 32]
    got = by_lane("__match_any_sync(~0u, 0) + 1000 * __reduce_min_sync(~0u, lane + 5)", threads=threads)
    assert got[-len(last) :] == [mask(range(len(last))) + 1000 * (last[0] + 5)] * len(last)


def test_halves_are_shuffled():
    text = """#include <cuda_fp16.h>
    __global__ void kernel(__half* x) {
        x[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 1);
        const __half2 both = __shfl_down_sync(~0u, __half2(x[threadIdx.x], x[threadIdx.x]), 2);
        x[threadIdx.x] = both.y;
    }"""
    x = np.arange(32).astype(np.float16)
    simulator.launch(text, 1, 32, (x,)).check()
    assert x.tolist() == [(i + 2 if i < 30 else i) ^ 1 for i in LANES]


@pytest.mark.parametrize("kind", ["float", "double", "int", "__half"])
@pytest.mark.parametrize(("used", "steps"), [("lane == 0", (8, 4, 2, 1)), ("lane == 5", (16,))])
def test_a_value_from_outside_the_mask_is_an_error_if_a_result_depends_on_it(kind, used, steps):
    """Check sums of 16 lanes, whose last lanes take values of lanes that the mask does not name."""
    shuffles = "".join(f"v = v + __shfl_down_sync(0xffff, v, {step});" for step in steps)
    text = f"""#include <cuda_fp16.h>
    __global__ void kernel({kind}* out) {{
        const int lane = threadIdx.x;
        {kind} v = 1;
        if (lane < 16) {{
            {shuffles}
            if ({used}) *out = v;
        }}
    }}"""
    out = np.zeros(1, {"float": np.float32, "double": np.float64, "int": np.int32, "__half": np.float16}[kind])
    report = simulator.launch(text, 1, 32, (out,))
    if steps[0] == 8:
        assert (out[0], report.ok, {each.kind for each in report.warnings}) == (
            16,
            True,
            {"shuffle of an undefined value"},
        )
    else:
        assert [(each.kind, each.line) for each in report.findings] == [("shuffle from a lane outside the mask", 6)]
        assert np.isnan(out[0]) or (kind == "int" and out[0] < 0)
        assert not report.warnings


def test_a_maximum_depends_on_a_value_from_outside_the_mask_though_it_drops_nan():
    text = """__global__ void kernel(float* out) {
        if (threadIdx.x < 4) out[threadIdx.x] = fmaxf(1.0f, __shfl_down_sync(0xf, 3.0f, 2));
    }"""
    out = np.zeros(4, np.float32)
    report = simulator.launch(text, 1, 32, (out,))
    assert out.tolist() == [3, 3, 1, 1]
    assert [(each.kind, each.line) for each in report.findings] == [("shuffle from a lane outside the mask", 2)]
