"""Tests that arithmetic on the CPU rounds, wraps and converts as on a GPU."""

from __future__ import annotations

import ctypes
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tiledmm.simulator.build import cxx, toolchain

UNIT = r"""
#define __forceinline__ inline __attribute__((always_inline))
#include "runtime.h"
#include "intrinsics.h"
#include "ptx.h"
extern "C" {
void half_to_floats(const unsigned short* x, float* y, long n) {
    for (long i = 0; i < n; ++i) y[i] = half_to_float(x[i]);
}
void float_to_halves(const float* x, unsigned short* y, long n) {
    for (long i = 0; i < n; ++i) y[i] = float_to_half(x[i]);
}
void double_to_halves(const double* x, unsigned short* y, long n) {
    for (long i = 0; i < n; ++i) y[i] = double_to_half(x[i]);
}
unsigned nan_bits(int which) {
    const float quiet = __uint_as_float(0xffc12345u);
    if (which == 0) return __float_as_uint(negate(quiet));
    if (which == 1) return __float_as_uint(double_to_float(__longlong_as_double(0xfff8000000000001ll)));
    return static_cast<unsigned>(__double_as_longlong(float_to_double(quiet)) >> 32);
}
float fused(float a, float b, float c) { return __fmaf_ieee_rn(a, b, c); }
float apart(float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); }
unsigned bits(int which, unsigned x, unsigned y, unsigned z) {
    switch (which) {
    case 0: return __popc(x);
    case 1: return __clz(x);
    case 2: return __ffs(x);
    case 3: return __brev(x);
    case 4: return __byte_perm(x, y, z);
    case 5: return __funnelshift_l(x, y, z);
    case 6: return __funnelshift_r(x, y, z);
    case 7: return __umulhi(x, y);
    case 8: return __mulhi(static_cast<int>(x), static_cast<int>(y));
    case 9: return __dp4a(static_cast<int>(x), static_cast<int>(y), static_cast<int>(z));
    default: return __dp4a(x, y, z);
    }
}
unsigned layout(int which) {
    switch (which) {
    case 0: return sizeof(float2) * 100 + alignof(float2);
    case 1: return sizeof(float3) * 100 + alignof(float3);
    case 2: return sizeof(float4) * 100 + alignof(float4);
    case 3: return sizeof(double2) * 100 + alignof(double2);
    case 4: return sizeof(uchar4) * 100 + alignof(uchar4);
    case 5: return sizeof(short2) * 100 + alignof(short2);
    case 6: return sizeof(ulonglong2) * 100 + alignof(ulonglong2);
    default: return sizeof(dim3) * 100 + alignof(dim3);
    }
}
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intrinsics")
    unit, target = folder / "unit.cpp", folder / "unit.so"
    unit.write_text(UNIT)
    command = [*cxx.compiler(), "-std=c++17", "-O2", "-fPIC", "-shared", "-ffp-contract=fast", "-w"]
    command += [*cxx.machine_flags(), f"-I{toolchain.NATIVE}", "-o", str(target), str(unit)]
    # Only the copies of ptx.h call the runtime, and none is called here.
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(target))
    loaded.fused.restype = loaded.apart.restype = ctypes.c_float
    loaded.fused.argtypes = loaded.apart.argtypes = (ctypes.c_float,) * 3
    loaded.bits.restype = loaded.layout.restype = loaded.nan_bits.restype = ctypes.c_uint32
    loaded.bits.argtypes = (ctypes.c_int, *(ctypes.c_uint32,) * 3)
    return loaded


def convert(function, values: np.ndarray, to: str) -> np.ndarray:
    found = np.empty(values.shape, to)
    values = np.ascontiguousarray(values)
    function(values.ctypes.data_as(ctypes.c_void_p), found.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(values.size))
    return found


# NumPy on arm64 says so of signalling NaNs.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_every_half_is_widened_exactly(library):
    halves = np.arange(65536, dtype=np.uint16)
    found = convert(library.half_to_floats, halves, "f4")
    expected = halves.view("f2").astype("f4")
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(found[numbers].view("u4"), expected[numbers].view("u4"))
    assert (found[~numbers].view("u4") == 0x7FFFFFFF).all()


def spacing(values: np.ndarray) -> np.ndarray:
    """Return the distance from each half to the next."""
    with np.errstate(over="ignore"):
        return np.nan_to_num(np.spacing(values.astype("f2")).astype("f8"), nan=0, posinf=32)


def check_rounding(function, values: np.ndarray) -> None:
    with np.errstate(over="ignore"):
        expected = values.astype("f2")
    found = convert(function, values, "u2")
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(found[numbers], expected[numbers].view("u2"))
    assert (found[~numbers] == 0x7FFF).all()


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_floats_are_rounded_to_halves_once(library):
    rng = np.random.default_rng(0)
    every = np.arange(65536, dtype=np.uint16).view("f2").astype("f4")
    every = every[np.isfinite(every)]
    middles = every.astype("f8")[:, None] + np.array([0.5, -0.5]) * spacing(every)[:, None]
    ties = middles.astype("f4").ravel()
    values = np.concatenate([
        rng.integers(0, 2**32, 300_000, dtype=np.uint64).astype("u4").view("f4"), every, ties,
        np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf)),
        np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 65519.996, 65520.0, 2.0**-25, 2.0**-24, 1e-45], "f4"),
    ])  # fmt: skip
    check_rounding(library.float_to_halves, values)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_doubles_are_rounded_to_halves_once(library):
    rng = np.random.default_rng(1)
    every = np.arange(65536, dtype=np.uint16).view("f2").astype("f8")
    every = every[np.isfinite(every)]
    ties = every + 0.5 * spacing(every)
    # Twice rounded, by way of float32, these would be ties that are none.
    near = np.concatenate([ties * (1 + 2.0**-40), ties * (1 - 2.0**-40), ties])
    values = np.concatenate([
        near, rng.standard_normal(100_000) * 2.0 ** rng.integers(-30, 18, 100_000),
        rng.integers(0, 2**63, 100_000).view("f8"), np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e300]),
    ])  # fmt: skip
    check_rounding(library.double_to_halves, values)


def test_nans_are_the_one_that_gpus_make(library):
    assert [library.nan_bits(which) for which in range(3)] == [0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF]


def test_fused_and_separate(library):
    a, b = 1 + 2.0**-13, 1 - 2.0**-13
    assert library.fused(a, b, -1.0) == -(2.0**-26)
    assert library.apart(a, b, -1.0) == 0.0
    rng = np.random.default_rng(0)
    for a, b, c in rng.standard_normal((200, 3)).astype("f4"):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        near = np.float32(float(exact))
        assert abs(Fraction(float(library.fused(a, b, c))) - exact) <= abs(Fraction(float(near)) - exact)


def signed(x: int) -> int:
    return x - (x >> 31 << 32)


def byte(x: int, i: int) -> int:
    return x >> 8 * i & 255


def small(x: int, i: int) -> int:
    return byte(x, i) - (byte(x, i) >> 7 << 8)


EXPECTED = (
    lambda x, y, z: x.bit_count(),
    lambda x, y, z: 32 - x.bit_length(),
    lambda x, y, z: (x & -x).bit_length(),
    lambda x, y, z: int(f"{x:032b}"[::-1], 2),
    lambda x, y, z: sum(
        (lambda v, s: (255 if v & 128 else 0) if s else v)(byte(y << 32 | x, z >> 4 * i & 7), z >> 4 * i & 8) << 8 * i
        for i in range(4)
    ),
    lambda x, y, z: (y << 32 | x) << (z & 31) >> 32,
    lambda x, y, z: (y << 32 | x) >> (z & 31),
    lambda x, y, z: x * y >> 32,
    lambda x, y, z: signed(x) * signed(y) >> 32,
    lambda x, y, z: z + sum(small(x, i) * small(y, i) for i in range(4)),
    lambda x, y, z: z + sum(byte(x, i) * byte(y, i) for i in range(4)),
)


@pytest.mark.parametrize("which", range(len(EXPECTED)))
def test_integers(library, which):
    rng = np.random.default_rng(which)
    triples = [*rng.integers(0, 2**32, (300, 3)).tolist(), [0, 0, 0], [1, 0, 31], [2**32 - 1] * 3, [2**31, 2**31, 32]]
    for x, y, z in triples:
        assert library.bits(which, x, y, z) == EXPECTED[which](x, y, z) & 0xFFFFFFFF, (x, y, z)


def test_vector_types_lie_as_on_a_gpu(library):
    assert [library.layout(which) for which in range(8)] == [808, 1204, 1616, 1616, 404, 404, 1616, 1204]


def test_headers_name_no_others():
    for header in Path(toolchain.NATIVE).glob("*.h"):
        if header.name in ("cuda.h", "intrinsics.h", "ptx.h", "entry.h", "runtime.h"):
            assert "#include <" not in header.read_text()
