"""Tests of shifts and of conversions to integers that are not written as casts: out of range they are findings."""

from __future__ import annotations

import numpy as np
import pytest

from tiledmm import simulator

KIND = "conversion out of range"


def launch(body: str, value: float, kind: str = "float") -> simulator.Report:
    text = f"""__device__ int whole(int i) {{ return i; }}
    __global__ void kernel(long long* out, {kind} x) {{
        {body}
    }}"""
    dtype = np.float32 if kind == "float" else np.float64
    return simulator.launch(text, 1, 1, (np.zeros(1, np.int64), dtype(value)))


@pytest.mark.parametrize(
    "body",
    ["int i = x; out[0] = i;", "int i = 0; i += 0.5f * x; out[0] = i;", "out[0] = whole(x);", "int i; i = x; *out = i;",
     "int i[1] = {}; i[0] += x; out[0] = i[0];", "out[0] = [](float y) -> int { return y; }(x);"],
)  # fmt: skip
def test_conversions_that_are_not_written(body):
    launch(body, -2147483648.0).check()
    (found,) = launch(body, 5e9).findings
    assert (found.kind, found.line) == (KIND, 3)
    assert "e+09 to a signed integer of 32 bits" in found.message


@pytest.mark.parametrize(
    ("integer", "inside", "outside"),
    [
        ("unsigned char", 255.9, [256, -1, np.nan]), ("unsigned", 4294967040, [4294967296, -1]),
        ("short", -32768.9, [32768, -32769, np.inf]), ("long long", -9.223372036854775e18, [1e19]),
        ("bool", np.inf, []), ("float", 1e38, []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["float", "double"])
def test_ranges(kind, integer, inside, outside):
    body = f"{integer} i = x; out[0] = i != 0;"
    launch(body, inside, kind).check()
    for value in outside:
        assert [each.kind for each in launch(body, value, kind).findings] == [KIND]


def test_what_it_says():
    (found,) = launch("unsigned char c = x;\nout[0] = c;", -3.5, "double").findings
    assert "-3.5 to an unsigned integer of 8 bits" in found.message


@pytest.mark.parametrize("cast", ["(int)x", "int(x)", "static_cast<int>(x)", "__float2int_rn(x)", "__double2int_rz(x)"])
def test_casts_and_functions_saturate_without_a_finding(cast):
    for value in (5e9, -np.inf, np.nan):
        launch(f"out[0] = {cast};", value, "float").check()


@pytest.mark.parametrize(
    ("shift", "by", "said"),
    [
        ("1u << (int)x", 32, "an unsigned integer of 32 bits by 32"),
        ("5 >> (int)x", -1, "a signed integer of 32 bits by -1"),
        ("1ll << (char)x", 64, "a signed integer of 64 bits by 64"),
        ("(unsigned char)1 << (int)x", 33, "a signed integer of 32 bits by 33"),
        ("1u << (unsigned long long)x", 4294967296, "an unsigned integer of 32 bits by 4294967296"),
    ],
)
def test_shifts(shift, by, said):
    body = f"out[0] = {shift};"
    launch(body, 31, "double").check()
    (found,) = launch(body, by, "double").findings
    assert (found.kind, found.line) == ("shift out of range", 3)
    assert f"shifts {said}" in found.message
