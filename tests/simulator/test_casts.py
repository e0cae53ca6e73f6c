"""Tests that casts to integers saturate, and that the rest of a text is unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.simulator.build.translation.casts import saturate


@pytest.mark.parametrize(
    "text",
    [
        "void f(int) const;", "x = sizeof(int) * 3;", "int (*f)(int) = g;", "g<int(float)>();",
        "struct S { operator int() const; };",
        "int i(3);", "p = new int(3);", "; int (&r)[3] = x;", "void g(int (&r)[3]);", "typedef int (*op)(int);",
        "f<int (*)(float)>();",
        "x = (int*)p;", "l = [](int) { return 1; };", "f(int(), 3);", "template void foo<float>(int);", "// (int)x",
        "auto f(int) -> int;",
        's = "(int)x";', "#if (int)x", "x = (T)y;", "x = (float)y;", "void h(float (int), int (int, float));",
    ],
)  # fmt: skip
def test_what_is_no_cast_stays(text):
    assert saturate(text) == text


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("x = (int)y;", ["int"]), ("f((unsigned char) -y, int(x * 2), 3)", ["unsigned char", "int"]), ("a[int(x)]",
        ["int"]),
        ("x = (float)(int)y;", ["int"]), ("a < int(x) && b > (int)c", ["int", "int"]),
        ("return static_cast<long long>(x);", ["long long"]),
        ("#define F(x) ((int)(x))", ["int"]), ("template <class T> T f(float x) { return static_cast<T>(x); }", ["T"]),
        ("x = c ? uint8_t(a) : (uint8_t)b;", ["uint8_t", "uint8_t"]), ("x = (int)\ny;", ["int"]),
        ("x = static_cast<\nint>(y);", ["int"]),
    ],
)  # fmt: skip
def test_casts_are_found(text, kinds):
    found = saturate(text)
    assert [part.split(">")[0] for part in found.split("tiledmm_detail::Cast<")[1:]] == kinds
    assert found.count("\n") == text.count("\n")


TYPES = {
    "signed char": np.int8, "unsigned char": np.uint8, "short": np.int16, "unsigned short": np.uint16, "int": np.int32,
    "unsigned": np.uint32, "long long": np.int64, "unsigned long long": np.uint64,
}  # fmt: skip


def gpu(value: float, dtype: type, bytes_: int) -> int:
    """Return what a GPU casts a number to: 32 or 64 bits, saturated, and the lowest bits of these."""
    info = np.iinfo(dtype)
    wide = np.iinfo(f"{'i' if info.min else 'u'}{max(info.bits // 8, 4)}")
    if np.isnan(value):
        whole = 0 if bytes_ == 4 and wide.bits == 32 else wide.min or 2 ** (wide.bits - 1)
    else:
        whole = wide.max if value >= wide.max else wide.min if value <= wide.min else int(value)
    return int(np.array(whole % 2**info.bits, np.uint64).astype(dtype))


@pytest.mark.parametrize(
    ("name", "source", "form"),
    [
        pytest.param(name, source, form, marks=slow_unless((i + j + k) % 3 == 0))
        for i, name in enumerate(TYPES)
        for j, source in enumerate([np.float32, np.float64])
        for k, form in enumerate(["({type})x[i]", "static_cast<{type}>(x[i])", "convert<{type}>(x[i])"])
    ],
)
def test_casts_saturate(name, source, form):
    kind = "float" if source is np.float32 else "double"
    text = f"""
    template <class T, class F> __device__ T convert(F x) {{ return (T)x; }}
    __global__ void cast({name}* out, const {kind}* x) {{
        const int i = threadIdx.x;
        out[i] = {form.format(type=name)};
    }}
    """
    x = np.array(
        [0.9, -1.9, 200, 300.5, -200, 4e4, 7e4, 3e9, -3e9, 5e9, 1e19, 2e19, -1e19, np.inf, -np.inf, np.nan], source
    )
    out = np.zeros(16, TYPES[name])
    simulator.launch(text, 1, 16, (out, x)).check()
    assert out.tolist() == [gpu(float(each), TYPES[name], x.itemsize) for each in x]


def test_types_precedence_and_constants_stay():
    text = """
    enum Kind { FIRST = (int)1.5f };
    template <int N> struct Sized { int v[N]; };
    template <class T> __device__ T same(T x, T y) { return x + y; }
    struct Bits { unsigned low : 3; };
    __global__ void kernel(int* out, const float* p, int* q) {
        constexpr int n = (int)3.7f;
        Sized<(int)4.2f> sized = {};
        Bits bits = {5};
        auto value = (int)2.5f;
        static_assert(sizeof(value) == 4 && n == 3 && FIRST == 1, "constants");
        out[0] = same((int)p[0], 3) * 2 - (int)p[0] * 2 + (int)-p[0] + (int)(p[0] + 1) % 3;
        out[1] = sizeof(sized) / 4 + (int)bits.low + ((long long)(q + 2) - (long long)q);
        switch ((int)p[1]) { case (int)2.9f: out[2] = 7; break; default: out[2] = 8; }
    }
    """
    out, p = np.zeros(3, np.int32), np.array([5.5, 2.1], np.float32)
    simulator.launch(text, 1, 1, (out, p, np.zeros(3, np.int32))).check()
    assert out.tolist() == [16 - 10 - 5 + 0, 4 + 5 + 8, 7]


def test_a_text_that_is_taken_for_a_cast_and_is_none_compiles():
    text = """
    struct Table { int operator()(int (row), int (col)) const { return row + col; } };
    __global__ void kernel(int* out) { out[0] = Table()(1, 2); }
    """
    out = np.zeros(1, np.int32)
    simulator.launch(text, 1, 1, (out,)).check()
    assert out[0] == 3
