"""Tests of ``cuda_fp8.h``: every number of 8 bits, and conversions from many numbers, bit by bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
KINDS = {"e4m3": E4M3, "e5m2": E5M2}
ALL = np.arange(256, dtype=np.uint8)
HEAD = "#include <cuda_fp8.h>\n"


def run(text: str, count: int, *arguments: np.ndarray) -> None:
    simulator.launch(HEAD + text, -(-count // 256), 256, (*arguments, count)).check()


def numbers(dtype: type[np.generic]) -> np.ndarray:
    """Return numbers around all of 8 bits, halves between them, and beyond; with infinities, in both signs."""
    known = np.concatenate([ALL.view(kind).astype(np.float64) for kind in KINDS.values()])
    known = np.unique(known[np.isfinite(known)])
    middles = (known[1:] + known[:-1]) / 2
    rng = np.random.default_rng(0)
    spread = np.exp2(rng.uniform(-30, 20, 4000)) * rng.choice([-1, 1], 4000)
    edges = [448, 464, 480, 57344, 61440, 65504, 1e30, np.inf]
    values = np.concatenate([known, middles, spread, edges, np.negative(edges)])
    values = values.clip(np.finfo(np.float32).min, np.finfo(np.float32).max) if dtype is np.float32 else values
    with np.errstate(over="ignore"):
        values = values.astype(dtype)
        near = [np.nextafter(values, dtype(to)) for to in (-np.inf, np.inf)]
    return np.concatenate([values, *near]).astype(dtype)


def to_odd(values: np.ndarray) -> np.ndarray:
    """Return doubles as floats whose last bit says that there is a rest: ml_dtypes would round twice."""
    near = values.astype(np.float32)
    short = np.where(np.abs(near) > np.abs(values), np.nextafter(near, np.float32(0)), near)
    return (short.view(np.uint32) | (short != values)).view(np.float32)


def rounded(values: np.ndarray, kind: str, *, saturates: bool) -> np.ndarray:
    """Return the bits of numbers, as ml_dtypes rounds them, in saturation the largest number for what is beyond."""
    dtype = KINDS[kind]
    most = float(ml_dtypes.finfo(dtype).max)
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = (to_odd(values) if values.dtype == np.float64 else values.astype(np.float32)).astype(dtype)
    beyond = ~np.isfinite(nearest.astype(np.float64))
    if saturates:
        nearest = np.where(beyond, np.copysign(most, values.astype(np.float64)).astype(dtype), nearest)
    return nearest.view(np.uint8)


@pytest.mark.parametrize("kind", KINDS)
def test_all_numbers_as_other_types(kind):
    text = f"""
    __global__ void k(
        const __nv_fp8_{kind}* x, float* f, double* d, __half* h, __nv_bfloat16* b, int* i, bool* set, int n) {{
        const int at = threadIdx.x;
        f[at] = float(x[at]), d[at] = double(x[at]), h[at] = __half(x[at]), b[at] = __nv_bfloat16(x[at]);
        i[at] = int(x[at]), set[at] = bool(x[at]);
    }}
    """
    wanted = ALL.view(KINDS[kind]).astype(np.float32)
    found = [np.zeros(256, dtype) for dtype in ("f4", "f8", "f2", ml_dtypes.bfloat16, "i4", "?")]
    run(text, 256, ALL.view(KINDS[kind]), *found)
    for each in found[:4]:
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(each.astype(np.float32), wanted)
        numbers_only = ~np.isnan(wanted)
        assert (np.signbit(each.astype(np.float32)) == np.signbit(wanted))[numbers_only].all()
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[4][finite], np.trunc(wanted[finite]))
    np.testing.assert_array_equal(found[5], wanted != 0)


@pytest.mark.parametrize(
    ("dtype", "type_", "function", "kind"),
    [
        pytest.param(*source, kind, marks=slow_unless(i % 2 == j))
        for i, source in enumerate([
            (np.float64, "double", "__nv_cvt_double_to_fp8(x[i]"),
            (np.float32, "float", "__nv_cvt_float_to_fp8(x[i]"),
            (np.float16, "__half", "__nv_cvt_halfraw_to_fp8(x[i]"),
            (ml_dtypes.bfloat16, "__nv_bfloat16", "__nv_cvt_bfloat16raw_to_fp8(x[i]"),
        ])
        for j, kind in enumerate(KINDS)
    ],
)  # fmt: skip
def test_numbers_are_rounded_once_to_nearest_even(dtype, type_, function, kind):
    text = f"""
    __global__ void k(const {type_}* x, unsigned char* sat, unsigned char* raw, __nv_fp8_{kind}* made, int n) {{
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        sat[i] = {function}, __NV_SATFINITE, __NV_{kind.upper()});
        raw[i] = {function}, __NV_NOSAT, __NV_{kind.upper()});
        made[i] = __nv_fp8_{kind}(x[i]);
    }}
    """
    values = numbers(dtype)
    sat, raw, made = np.zeros((3, values.size), np.uint8)
    run(text, values.size, values, sat, raw, made.view(KINDS[kind]))
    np.testing.assert_array_equal(sat, rounded(values, kind, saturates=True))
    np.testing.assert_array_equal(made, sat)
    np.testing.assert_array_equal(raw, rounded(values, kind, saturates=False))


@pytest.mark.parametrize(
    ("kind", "saturation"),
    [
        pytest.param(kind, saturation, marks=slow_unless(i == j))
        for i, kind in enumerate(KINDS)
        for j, saturation in enumerate(("__NV_SATFINITE", "__NV_NOSAT"))
    ],
)
def test_nan_of_a_float_is_one_number_and_that_of_a_double_keeps_its_sign(kind, saturation):
    text = f"""
    __global__ void k(const double* x, unsigned char* of_float, unsigned char* of_double, int n) {{
        const int i = threadIdx.x;
        if (i >= n) return;
        of_float[i] = __nv_cvt_float_to_fp8(float(x[i]), {saturation}, __NV_{kind.upper()});
        of_double[i] = __nv_cvt_double_to_fp8(x[i], {saturation}, __NV_{kind.upper()});
    }}
    """
    values = np.array([0x7FF8 << 48, 0xFFF8 << 48], np.uint64).view(np.float64)
    of_float, of_double = np.zeros((2, 2), np.uint8)
    run(text, 2, values, of_float, of_double)
    assert of_float.tolist() == [0x7F, 0x7F]
    assert of_double.tolist() == ([0x7F, 0xFF] if kind == "e4m3" else [0x7E, 0xFE])


@pytest.mark.parametrize("kind", ["e4m3", pytest.param("e5m2", marks=pytest.mark.slow)])
def test_vectors_of_two_and_four(kind):
    text = f"""
    using One = __nv_fp8_{kind}; using Two = __nv_fp8x2_{kind}; using Four = __nv_fp8x4_{kind};
    __global__ void k(const float4* x, Two* two, Four* four, Four* halves, float4* back, float2* half_back, int n) {{
        const int i = threadIdx.x;
        if (i >= n) return;
        static_assert(sizeof(One) == 1 && sizeof(Two) == 2 && sizeof(Four) == 4, "sizes");
        const float4 v = x[i];
        two[i] = Two(make_float2(v.x, v.y));
        four[i] = Four(v);
        halves[i] = Four(__floats2half2_rn(v.x, v.y), __floats2half2_rn(v.z, v.w));
        back[i] = float4(four[i]);
        half_back[i] = __half22float2(__half2(two[i]));
    }}
    """
    values = np.random.default_rng(1).standard_normal((64, 4)).astype(np.float16).astype(np.float32) * 100
    values = values.astype(np.float16).astype(np.float32)
    two, four, halves = (np.zeros((64, size), np.uint8) for size in (2, 4, 4))
    back, half_back = np.zeros((64, 4), np.float32), np.zeros((64, 2), np.float32)
    run(text, 64, values, two, four, halves, back, half_back)
    wanted = rounded(values, kind, saturates=True)
    np.testing.assert_array_equal(four, wanted)
    np.testing.assert_array_equal(halves, wanted)
    np.testing.assert_array_equal(two, wanted[:, :2])
    np.testing.assert_array_equal(back, wanted.view(KINDS[kind]).astype(np.float32))
    np.testing.assert_array_equal(half_back, back[:, :2])
