"""Tests of texts in which variables that may be uninitialized are given a value."""

from __future__ import annotations

import pytest

from tiledmm.hardware.architectures import TARGETS
from tiledmm.simulator.build import toolchain
from tiledmm.simulator.build.debug.variables import LocalVariable, local_variables_of
from tiledmm.simulator.check.unset import VALUES, constructed_members, filled


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("float4 v;", "float4 v;@"), ("float a, v, b;", "float a, v, b;@"), ("int *v;", "int *v;@"),
        ("bool v;", "bool v;@"), ("float v[4], w = f(1, 2);", "float v[4], w = f(1, 2);@"),
        ("float w = 0, v[TM][TN];", "float w = 0, v[TM][TN];@"),
        ("alignas(16) float v [4] ;", "alignas(16) float v [4] ;@"),
        ("if (c) { float4 v; v.x = 1; }", "if (c) { float4 v;@ v.x = 1; }"), ("float4 v,\n w;", "float4 v,\n w;@"),
        ("__shared__ int s; float4 v;", "__shared__ int s; float4 v;@"),
        ("float4 v = {};", None), ("float v[2] = {1};", None), ("float4 v{};", None), ("float4 v(w);", None),
        ("__shared__ float v[4];", None), ("static float v[4];", None), ("for (float4 v; ;) {}", None),
        ("float4 my_v; a.v;", None), ("float v = 0;", None), ("f(p.v, 1); s->v;", None), ("int i = v, v;", None),
        ("float4\nv;", None), ("float4 v, w)", None),
    ],
)  # fmt: skip
def test_declarations(line: str, expected: str | None) -> None:
    text = f"void f() {{\n{line}\n}}\n"
    for value in VALUES:
        wanted = line if expected is None else expected.replace("@", f" tiledmm_detail::{value}::fill(v);")
        variables = [LocalVariable("v", line) for line in (2, 0, 99)]
        assert filled(text, variables, value) == text.replace(line, wanted)


def test_a_threads_own_variables() -> None:
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
    found = local_variables_of(toolchain.typed_library(text, "k", target=TARGETS["sm_90"]), "kernel.cu")
    assert {(each.name, each.declared) for each in found if each.has_parts} == {
        ("inside", 4), ("many", 5), ("set", 10), ("pair", 10), ("rows", 10)
    }  # fmt: skip
    assert {(each.name, each.declared) for each in found if not each.has_parts} == {
        ("number", 9), ("pointer", 9), ("reference", 9)
    }  # fmt: skip


def test_members_that_a_constructor_may_leave_out() -> None:
    text = """template <class T> class A : public B<T> {
     public:
      T re, /* the real part */
        im;
      unsigned long long n; int v[3]; float* p; static int s; const int c; int set = 1;
      A(T r) : re(r) { int local; }
      ~A() {}
      int f(int x) { return x; }
      int g;
    };
    struct Plain { int a; };
    struct WithoutParameters { int a; WithoutParameters() {} };
    struct Shared { int a; Shared() {} Shared(int i) : a(i) {} };
    __global__ void k() { __shared__ Shared s[2]; }"""
    members = constructed_members(text)
    assert [(each.name, each.declared) for each in members] == [("re", 3), ("im", 4), ("n", 5), ("g", 9)]
    value = " = tiledmm_detail::Ones()"
    wanted = text.replace("re,", f"re{value},").replace("im;", f"im{value};").replace(" n;", f" n{value};")
    assert filled(text, members, "Ones") == wanted.replace("g;", f"g{value};")
