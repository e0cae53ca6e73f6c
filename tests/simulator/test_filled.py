"""Tests of texts in which variables that may be uninitialized are given a value."""

from __future__ import annotations

import pytest

from tiledmm.hardware.architectures import TARGETS
from tiledmm.simulator.build import toolchain
from tiledmm.simulator.build.debug.variables import aggregates_of
from tiledmm.simulator.check.unset import VALUES, filled, filled_aggregates


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("float sum;", "sum", "float sum@;"), ("float m = -INFINITY, sum;", "sum", "float m = -INFINITY, sum@;"),
        ("float a, sum, b;", "sum", "float a, sum@, b;"),
        ("for (int i = 0, sum; ;)", "sum", "for (int i = 0, sum@; ;)"),
        ("int *sum;", "sum", "int *sum@;"),
        ("float sum = 0;", "sum", None), ("float sum[4];", "sum", None), ("Moments mine;", "mine.m2", None),
        ("f(p.sum, 1); s->sum;", "sum", None), ("float sums, my_sum;", "sum", None), ("int i = sum, sum;", "sum", None),
        ("float sum;", "<unknown>", None),
    ],
)  # fmt: skip
def test_declarations(line, name, expected):
    text = f"void f() {{\n{line}\n}}\n"
    for value in VALUES:
        wanted = line if expected is None else expected.replace("@", f" = tiledmm_detail::{value}()")
        assert filled(text, [(name, 2), (name, 0), (name, 99), (name, 2)], value) == text.replace(line, wanted)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("float4 v;", "float4 v;@"), ("float v[4], w = f(1, 2);", "float v[4], w = f(1, 2);@"),
        ("float w = 0, v[TM][TN];", "float w = 0, v[TM][TN];@"),
        ("alignas(16) float v [4] ;", "alignas(16) float v [4] ;@"),
        ("if (c) { float4 v; v.x = 1; }", "if (c) { float4 v;@ v.x = 1; }"), ("float4 v,\n w;", "float4 v,\n w;@"),
        ("__shared__ int s; float4 v;", "__shared__ int s; float4 v;@"),
        ("float4 v = {};", None), ("float v[2] = {1};", None), ("float4 v{};", None), ("float4 v(w);", None),
        ("__shared__ float v[4];", None), ("static float v[4];", None), ("for (float4 v; ;) {}", None),
        ("float4 my_v; a.v;", None), ("float4\nv;", None), ("float4 v, w)", None),
    ],
)  # fmt: skip
def test_declarations_of_aggregates(line: str, expected: str | None) -> None:
    text = f"void f() {{\n{line}\n}}\n"
    for value in VALUES:
        wanted = line if expected is None else expected.replace("@", f" tiledmm_detail::{value}::fill(v);")
        assert filled_aggregates(text, [("v", 2), ("v", 0), ("v", 99)], value) == text.replace(line, wanted)


def test_a_threads_own_aggregates() -> None:
    text = """
    struct Pair { float a, b; };
    __constant__ Pair constant;
    __device__ __forceinline__ float inlined(float x) { float inside[2]; inside[0] = x; return inside[0]; }
    template <int N> __device__ float of_template(float x) { Pair many[N]; many[0].a = x; return many[0].a; }
    extern "C" __global__ void k(float* x, Pair given) {
        __shared__ float shared[4];
        static const float table[2] = {1, 2};
        int number; float* pointer = x; float (&reference)[4] = shared;
        const float4 set = {}; Pair pair; volatile float rows[2][3];
        shared[0] = inlined(x[0]) + of_template<2>(x[1]) + table[1];
        number = 0; pair.a = rows[1][2] = reference[0];
        pointer[number] = pair.a + set.x + given.a + constant.a;
    }
    """
    found = aggregates_of(toolchain.typed_library(text, "k", target=TARGETS["sm_90"]), "kernel.cu")
    assert {*found} == {("inside", 4), ("many", 5), ("set", 10), ("pair", 10), ("rows", 10)}
