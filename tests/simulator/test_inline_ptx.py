"""Tests of inline PTX: each family of instructions compared with NumPy, and texts that stay unchanged."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.errors import CompilationError
from tiledmm.hardware.architectures import TARGETS
from tiledmm.simulator.build import toolchain
from tiledmm.simulator.build.translation import inline_ptx
from tiledmm.simulator.execute.interface import ORDERS

NATIVE_TEXT = "".join(path.read_text() for path in toolchain.NATIVE.glob("*.h") if path.name != "inline_ptx.h")
HAS_NVRTC = importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.core")


def check_ptx(text: str) -> None:
    """Compile the text by NVRTC if it is installed, to check that ptxas accepts its PTX."""
    if HAS_NVRTC:
        from tiledmm.compile.inspection import compile_for

        compile_for(text, "kernel", "sm_90")


def launch(text: str, *arrays: np.ndarray, blocks: int = 1, order: str = "forward", checked: bool = True):
    """Run the kernel of the text with one warp per block."""
    if checked:
        check_ptx(text)
    return simulator.launch(text, blocks, 32, arrays, threads=order)


def run(text: str, *arrays: np.ndarray, **options: Any) -> simulator.Report:
    report = launch(text, *arrays, **options)
    report.check()
    return report


def findings(text: str, *arrays: np.ndarray) -> list[tuple[str, int]]:
    return [(found.kind, found.line) for found in launch(text, *arrays).findings]


@dataclass
class Case:
    """A statement with one output, operand 0, and the function of the other operands that it computes."""

    ptx: str
    expected: Callable[..., Any]


LETTERS = {"u2": "h", "i2": "h", "u4": "r", "i4": "r", "u8": "l", "i8": "l", "f4": "f", "f8": "d"}
TYPES = {
    "u2": "unsigned short", "i2": "short", "u4": "unsigned", "i4": "int", "u8": "unsigned long long",
    "i8": "long long", "f4": "float", "f8": "double",
}  # fmt: skip


def computed(cases: list[Case], inputs: list[np.ndarray], to: str) -> np.ndarray:
    """Run each statement for each element of the inputs, one element per thread."""
    count = inputs[0].size
    parameters = ", ".join(f"const {TYPES[x.dtype.str[1:]]}* x{i}" for i, x in enumerate(inputs))
    body = "\n".join(
        f'{{ {TYPES[to]} y; asm volatile("{case.ptx}" : "={LETTERS[to]}"(y) : '
        + ", ".join(f'"{LETTERS[x.dtype.str[1:]]}"(x{i}[at])' for i, x in enumerate(inputs))
        + f"); out[{number * count} + at] = y; }}"
        for number, case in enumerate(cases)
    )
    text = f"""extern "C" __global__ void kernel({parameters}, {TYPES[to]}* out) {{
    const int at = threadIdx.x + blockDim.x * blockIdx.x;
    {body}
}}"""
    out = np.zeros(count * len(cases), to)
    assert count % 32 == 0
    run(text, *inputs, out, blocks=count // 32)
    return out.reshape(len(cases), count)


def check(cases: list[Case], inputs: list[np.ndarray], to: str) -> None:
    for case, found in zip(cases, computed(cases, inputs, to), strict=True):
        values = zip(*(x.tolist() for x in inputs), strict=True)
        mask = (1 << 8 * found.itemsize) - 1
        expected = [int(case.expected(*each)) & mask for each in values]
        got = [each & mask for each in found.tolist()]
        assert got == expected, case.ptx


def integers(kind: str, count: int, seed: int = 0) -> list[np.ndarray]:
    """Return random integers that include the extreme ones."""
    rng = np.random.default_rng(seed)
    limits = np.iinfo(kind)
    found = []
    for i in range(count):
        values = rng.integers(limits.min, limits.max, 96, dtype=kind, endpoint=True)
        special = np.array([0, 1, limits.max, limits.min, 31, 32, 33, limits.max - 1], dtype=kind)
        values[:40] = np.roll(np.tile(special, 5), i * 3)
        found.append(values)
    return found


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (x >> (bits - 1) << bits)


def field(x: int, start: int, count: int, width: int) -> int:
    start, count = start & 255, count & 255
    return (x & ((1 << width) - 1)) >> start & ((1 << count) - 1)


def signed_field(x: int, start: int, count: int) -> int:
    start, count = start & 255, count & 255
    if count == 0:
        return 0
    top = min(start + count - 1, 31)
    value = sum((x >> min(start + i, top) & 1) << i for i in range(32) if i < count and start + i < 32)
    return value - (1 << min(count, 32 - start)) * (x >> top & 1) if start < 32 else -(x >> 31 & 1)


def inserted(f: int, x: int, start: int, count: int) -> int:
    start, count = start & 255, count & 255
    mask = ((1 << count) - 1) << start & 0xFFFFFFFF
    return (x & ~mask) | (f << start & mask)


def shifted(x: int, count: int) -> int:
    return signed(x) >> min(count, 31)


def truncated_quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


UNSIGNED = [
    Case("add.u32 %0, %1, %2;", lambda x, y, z: x + y),
    Case("sub.u32 %0, %1, %2;", lambda x, y, z: x - y),
    Case("mul.lo.u32 %0, %1, %2;", lambda x, y, z: x * y),
    Case("mul.hi.u32 %0, %1, %2;", lambda x, y, z: x * y >> 32),
    Case("mad.lo.u32 %0, %1, %2, %3;", lambda x, y, z: x * y + z),
    Case("mad.hi.u32 %0, %1, %2, %3;", lambda x, y, z: (x * y >> 32) + z),
    Case("and.b32 %0, %1, %2;", lambda x, y, z: x & y),
    Case("or.b32 %0, %1, %2;", lambda x, y, z: x | y),
    Case("xor.b32 %0, %1, 0xFF00U;", lambda x, y, z: x ^ 0xFF00),
    Case("not.b32 %0, %1;", lambda x, y, z: ~x),
    Case("shl.b32 %0, %1, %2;", lambda x, y, z: x << min(y, 32)),
    Case("shr.u32 %0, %1, %2;", lambda x, y, z: x >> y),
    Case("shr.b32 %0, %1, 5;", lambda x, y, z: x >> 5),
    Case("shf.l.wrap.b32 %0, %1, %2, %3;", lambda x, y, z: (y << 32 | x) << (z & 31) >> 32),
    Case("shf.r.wrap.b32 %0, %1, %2, %3;", lambda x, y, z: (y << 32 | x) >> (z & 31)),
    Case("shf.l.clamp.b32 %0, %1, %2, %3;", lambda x, y, z: (y << 32 | x) << min(z, 32) >> 32),
    Case("shf.r.clamp.b32 %0, %1, %2, %3;", lambda x, y, z: (y << 32 | x) >> min(z, 32)),
    Case("bfe.u32 %0, %1, %2, %3;", lambda x, y, z: field(x, y, z, 32)),
    Case("bfi.b32 %0, %1, %2, %3, 7;", lambda x, y, z: inserted(x, y, z, 7)),
    Case("popc.b32 %0, %1;", lambda x, y, z: x.bit_count()),
    Case("clz.b32 %0, %1;", lambda x, y, z: 32 - x.bit_length()),
    Case("brev.b32 %0, %1;", lambda x, y, z: int(f"{x:032b}"[::-1], 2)),
    Case("prmt.b32 %0, %1, %2, 0x5410;", lambda x, y, z: (x & 0xFFFF) | (y & 0xFFFF) << 16),
    Case("lop3.b32 %0, %1, %2, %3, 0xE8;", lambda x, y, z: (x & y) | (x & z) | (y & z)),
    Case("lop3.b32 %0, %1, %2, %3, 0x1A;", lambda x, y, z: ((x & y) | z) ^ x),
    Case("min.u32 %0, %1, %2;", lambda x, y, z: min(x, y)),
    Case("max.u32 %0, %1, %2;", lambda x, y, z: max(x, y)),
    Case("div.u32 %0, %1, 7;", lambda x, y, z: x // 7),
    Case("rem.u32 %0, %1, 7;", lambda x, y, z: x % 7),
    Case(
        "{ .reg .u32 %%t<3>; add.u32 %%t0, %1, 1; mov.u32 %%t2, %%t0; add.u32 %0, %%t2, %2; }",
        lambda x, y, z: x + y + 1,
    ),
    Case(
        "{ .reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {high, low}; }", lambda x, y, z: x >> 16 | x << 16
    ),
    Case("{ .reg .pred p; setp.lt.u32 p, %1, %2; selp.b32 %0, %1, %2, p; }", lambda x, y, z: min(x, y)),
    Case(
        "{ .reg .pred p; setp.lo.u32 p, %1, %2; mov.u32 %0, %3; @p mov.u32 %0, 5; @!p add.u32 %0, %0, 1; }",
        lambda x, y, z: 5 if x < y else z + 1,
    ),
    Case(
        "{ .reg .pred p, q; setp.eq.u32 p, %2, %3; setp.gt.and.u32 p|q, %1, %2, !p; selp.u32 %0, 1, 2, p;"
        " @q mov.b32 %0, 3; }",
        lambda x, y, z: 3 if x <= y and y != z else 1 if y != z else 2,
    ),
    Case(
        "{ .reg .pred p, q; setp.ne.b32 p, %1, 0; setp.ne.b32 q, %2, 0; xor.pred p, p, q; selp.u32 %0, 1, 0, p; }",
        lambda x, y, z: (x != 0) != (y != 0),
    ),
    Case("{ .reg .u16 t; mov.b32 {t, _}, %1; cvt.u32.u16 %0, t; }", lambda x, y, z: x & 0xFFFF),
    Case(
        "{ .reg .b64 t; mov.b64 t, {%1, %2}; shr.u64 t, t, 16; cvt.u32.u64 %0, t; }",
        lambda x, y, z: (y << 32 | x) >> 16,
    ),
    Case("{ .reg .u64 t; mul.wide.u32 t, %1, %2; mov.b64 {_, %0}, t; }", lambda x, y, z: x * y >> 32),
]
SIGNED = [
    Case("mul.hi.s32 %0, %1, %2;", lambda x, y, z: x * y >> 32),
    Case("mad.lo.s32 %0, %1, -3, %3;", lambda x, y, z: -3 * x + z),
    Case("shr.s32 %0, %1, %2;", lambda x, y, z: shifted(x, y & 0xFFFFFFFF)),
    Case("bfe.s32 %0, %1, 5, 9;", lambda x, y, z: signed_field(x & 0xFFFFFFFF, 5, 9)),
    Case("min.s32 %0, %1, %2;", lambda x, y, z: min(x, y)),
    Case("max.s32 %0, %1, %2;", lambda x, y, z: max(x, y)),
    Case("abs.s32 %0, %1;", lambda x, y, z: abs(x)),
    Case("neg.s32 %0, %1;", lambda x, y, z: -x),
    Case("div.s32 %0, %1, 10;", lambda x, y, z: truncated_quotient(x, 10)),
    Case("rem.s32 %0, %1, 10;", lambda x, y, z: x - 10 * truncated_quotient(x, 10)),
    Case("cvt.s32.s8 %0, %1;", lambda x, y, z: signed(x, 8)),
    Case("cvt.sat.s8.s32 %0, %1;", lambda x, y, z: max(-128, min(127, x))),
    Case("{ .reg .pred p; setp.le.s32 p, %1, %2; selp.s32 %0, %3, -1, p; }", lambda x, y, z: z if x <= y else -1),
    Case(
        "{ .reg .s64 t; mad.wide.s32 t, %1, %2, 7; shr.s64 t, t, 32; cvt.u32.u64 %0, t; }",
        lambda x, y, z: x * y + 7 >> 32,
    ),
]
WIDE = [
    Case("add.s64 %0, %1, %2;", lambda x, y: x + y),
    Case("sub.u64 %0, %1, %2;", lambda x, y: x - y),
    Case("mul.lo.u64 %0, %1, %2;", lambda x, y: x * y),
    Case("mul.hi.u64 %0, %1, %2;", lambda x, y: x * y >> 64),
    Case("and.b64 %0, %1, %2;", lambda x, y: x & y),
    Case("shl.b64 %0, %1, 40;", lambda x, y: x << 40),
    Case("shr.u64 %0, %1, 40;", lambda x, y: x >> 40),
    Case("bfe.u64 %0, %1, 13, 37;", lambda x, y: field(x, 13, 37, 64)),
    Case("max.u64 %0, %1, %2;", lambda x, y: max(x, y)),
    Case("{ .reg .u32 t; popc.b64 t, %1; cvt.u64.u32 %0, t; }", lambda x, y: x.bit_count()),
    Case("{ .reg .u32 t; clz.b64 t, %1; cvt.u64.u32 %0, t; }", lambda x, y: 64 - x.bit_length()),
    Case("{ .reg .b32 a, b; mov.b64 {a, b}, %1; mov.b64 %0, {b, a}; }", lambda x, y: x >> 32 | x << 32),
    Case("brev.b64 %0, %1;", lambda x, y: int(f"{x:064b}"[::-1], 2)),
]


def byte(x: int, i: int) -> int:
    return x >> 8 * i & 255


DOTS = [
    Case("dp4a.u32.u32 %0, %1, %2, %3;", lambda x, y, z: z + sum(byte(x, i) * byte(y, i) for i in range(4))),
    Case(
        "dp4a.s32.s32 %0, %1, %2, %3;",
        lambda x, y, z: z + sum(signed(byte(x, i), 8) * signed(byte(y, i), 8) for i in range(4)),
    ),
    Case(
        "dp4a.s32.u32 %0, %1, %2, %3;",
        lambda x, y, z: z + sum(signed(byte(x, i), 8) * byte(y, i) for i in range(4)),
    ),
]


@pytest.mark.parametrize(
    ("cases", "kind", "count"),
    [(UNSIGNED, "u4", 3), (DOTS, "u4", 3), (SIGNED, "i4", 3), (WIDE, "u8", 2)],
    ids=["u32", "dp4a", "s32", "64"],
)
def test_integers(cases, kind, count):
    check(cases, integers(kind, count), kind)


# ---- floating point ----


def floats(kind: str, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    found = []
    for i in range(count):
        values = rng.standard_normal(96) * 2.0 ** rng.integers(-20, 20, 96)
        values[:8] = np.roll([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.5, 3.0], i)
        found.append(values.astype(kind))
    return found


def same(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    np.testing.assert_array_equal(found, expected, err_msg=name)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]), err_msg=name)


def step(x: np.float32, direction: float) -> np.float32:
    return np.nextafter(x, np.float32(direction))


def rounded(exact: Fraction, mode: str) -> np.float32:
    """Round an exact number to float32 in a mode."""
    near = np.float32(float(exact))
    up = mode == "rp" or (mode == "rz" and exact < 0)
    if Fraction(float(near)) < exact and up:
        near = step(near, np.inf)
    if Fraction(float(near)) > exact and not up:
        near = step(near, -np.inf)
    return near


def flushed(x: np.ndarray) -> np.ndarray:
    """Replace subnormals by zeros of their sign."""
    return np.where(abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floats():
    x, y, z = floats("f4", 3)
    cases = {
        "add.f32 %0, %1, %2;": x + y,
        "add.rn.f32 %0, %1, 0f3F800000;": x + np.float32(1),
        "sub.f32 %0, %1, %2;": x - y,
        "mul.rn.f32 %0, %1, %2;": x * y,
        "mul.f32 %0, %1, 0.5;": x * np.float32(0.5),
        "fma.rn.f32 %0, %1, 1.0, %3;": x + z,
        "mad.rn.f32 %0, %1, 2.0, %3;": (x.astype("f8") * 2 + z).astype("f4"),
        "neg.f32 %0, %1;": -x,
        "abs.f32 %0, %1;": abs(x),
        "min.f32 %0, %1, %2;": np.where((x == 0) & (y == 0), np.float32(-0.0), np.fmin(x, y)),
        "max.ftz.f32 %0, %1, %2;": np.fmax(x, y),
        "div.rn.f32 %0, %1, %2;": x / y,
        "sqrt.rn.f32 %0, %1;": np.sqrt(x),
        "rcp.rn.f32 %0, %1;": 1 / x,
        "ex2.approx.f32 %0, %1;": np.exp2(x.astype("f8")).astype("f4"),
        "mul.ftz.f32 %0, %1, 0f00800000;": flushed(x * np.float32(2.0**-126)),
        "add.sat.f32 %0, %1, %2;": np.nan_to_num(np.clip(x + y, 0, 1), nan=0.0) + 0.0,
        "cvt.rni.f32.f32 %0, %1;": np.rint(x),
        "cvt.rzi.f32.f32 %0, %1;": np.trunc(x),
        "mov.b32 %0, %1;": x,
        "{ .reg .pred p; setp.lt.f32 p, %1, %2; selp.f32 %0, %1, %2, p; }": np.where(x < y, x, y),
        "{ .reg .pred p; setp.geu.f32 p, %1, %2; selp.f32 %0, %1, %2, p; }": np.where(~(x < y), x, y),
        "{ .reg .pred p; setp.ne.f32 p, %1, %1; selp.f32 %0, 1.0, 2.0, p; }": np.full(96, 2, "f4"),
        "{ .reg .pred p; setp.nan.f32 p, %1, 1.0; selp.f32 %0, 1.0, 2.0, p; }": np.where(np.isnan(x), 1, 2),
    }  # fmt: skip
    for (ptx, expected), found in zip(
        cases.items(), computed([Case(ptx, None) for ptx in cases], [x, y, z], "f4"), strict=True
    ):
        same(found, expected.astype("f4"), ptx)


def test_directed_rounding():
    x, y, z = (np.where(np.isfinite(each), each, 1) for each in floats("f4", 3))
    exact = {
        "add": [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(x, y, strict=True)],
        "mul": [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, y, strict=True)],
        "fma": [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z, strict=True)],
    }
    names = [(name, mode) for name in exact for mode in ("rz", "rm", "rp")]
    cases = [Case(f"{name}.{mode}.f32 %0, %1, %2{', %3' * (name == 'fma')};", None) for name, mode in names]
    for (name, mode), found in zip(names, computed(cases, [x, y, z], "f4"), strict=True):
        expected = np.array([rounded(each, mode) for each in exact[name]])
        np.testing.assert_array_equal(found, expected, err_msg=f"{name}.{mode}")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_doubles():
    x, y, z = floats("f8", 3)
    cases = {
        "add.f64 %0, %1, %2;": x + y,
        "sub.rn.f64 %0, %1, %2;": x - y,
        "mul.f64 %0, %1, %2;": x * y,
        "fma.rn.f64 %0, %1, 0d3FF0000000000000, %3;": x + z,
        "max.f64 %0, %1, %2;": np.fmax(x, y),
        "{ .reg .f32 t; cvt.rn.f32.f64 t, %1; cvt.f64.f32 %0, t; }": x.astype("f4").astype("f8"),
    }
    for (ptx, expected), found in zip(
        cases.items(), computed([Case(ptx, None) for ptx in cases], [x, y, z], "f8"), strict=True
    ):
        same(found, expected, ptx)


def halves(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(9)
    return [(rng.standard_normal(192) * 2.0 ** rng.integers(-8, 4, 192)).astype("f2").view("u4") for _ in range(count)]


def test_pairs_of_halves():
    x, y, z = halves(3)
    a, b, c = (each.view("f2").astype("f8") for each in (x, y, z))
    expected = {
        "add.f16x2 %0, %1, %2;": a + b,
        "sub.rn.f16x2 %0, %1, %2;": a - b,
        "mul.f16x2 %0, %1, %2;": a * b,
        "fma.rn.f16x2 %0, %1, %2, %3;": a * b + c,
        "min.f16x2 %0, %1, %2;": np.minimum(a, b),
        "neg.f16x2 %0, %1;": -a,
        "{ .reg .f16 l1, h1, l2, h2; mov.b32 {l1, h1}, %1; mov.b32 {l2, h2}, %2; add.f16 l1, l1, l2;"
        " add.f16 h1, h1, h2; mov.b32 %0, {l1, h1}; }": a + b,
    }
    found = computed([Case(ptx, None) for ptx in expected], [x, y, z], "u4")
    for (ptx, values), got in zip(expected.items(), found, strict=True):
        np.testing.assert_array_equal(got.view("f2"), values.astype("f2"), err_msg=ptx)


def bfloat(values: np.ndarray) -> np.ndarray:
    """Round float64 to the nearest bfloat16, as float32; the values must fit 24 bits."""
    bits = values.astype("f4").view("u4").astype("u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype("u4").view("f4")


def test_pairs_of_bfloats():
    rng = np.random.default_rng(3)
    values = [bfloat(rng.integers(-250, 250, 192) * 2.0 ** rng.integers(-3, 3, 192)) for _ in range(3)]
    x, y, z = ((each.view("u4") >> 16).astype("u2").view("u4") for each in values)
    a, b, c = (each.astype("f8") for each in values)
    expected = {"fma.rn.bf16x2 %0, %1, %2, %3;": a * b + c, "max.bf16x2 %0, %1, %2;": np.maximum(a, b)}
    found = computed([Case(ptx, None) for ptx in expected], [x, y, z], "u4")
    for (ptx, exact), got in zip(expected.items(), found, strict=True):
        np.testing.assert_array_equal((got.view("u2").astype("u4") << 16).view("f4"), bfloat(exact), err_msg=ptx)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_conversions():
    (x,) = floats("f4", 1)
    x[8:16] = [65504, 65520, 1e-7, 0.5, 1.5, 2.5, -2.5, 4e9]
    half = x.astype("f2")
    whole = np.nan_to_num(x.astype("f8"), nan=0)
    expected = {
        "cvt.rni.s32.f32 %0, %1;": np.clip(np.rint(whole), -(2**31), 2**31 - 1).astype("i8").astype("u4"),
        "cvt.rzi.s32.f32 %0, %1;": np.clip(np.trunc(whole), -(2**31), 2**31 - 1).astype("i8").astype("u4"),
        "cvt.rmi.s32.f32 %0, %1;": np.clip(np.floor(whole), -(2**31), 2**31 - 1).astype("i8").astype("u4"),
        "cvt.rpi.u32.f32 %0, %1;": np.clip(np.ceil(whole), 0, 2**32 - 1).astype("u4"),
        "{ .reg .b16 t; cvt.rn.f16.f32 t, %1; cvt.u32.u16 %0, t; }": np.where(
            np.isnan(x), 0x7FFF, half.view("u2")
        ).astype("u4"),
        "cvt.rn.f16x2.f32 %0, %1, 1.0;": np.where(np.isnan(x), 0x7FFF, half.view("u2")).astype("u4") << 16 | 0x3C00,
        "cvt.rna.tf32.f32 %0, %1;": np.where(
            np.isfinite(x), x.view("u4") + 0x1000 & 0xFFFFE000, np.where(np.isnan(x), 0x7FFFFFFF, x.view("u4"))
        ).astype("u4"),
        "{ .reg .s32 t; .reg .f32 u; cvt.rzi.s32.f32 t, %1; cvt.rn.f32.s32 u, t; mov.b32 %0, u; }": np.clip(
            np.trunc(whole) + 0.0, -(2**31), 2**31 - 1
        )
        .astype("f4")
        .view("u4"),
    }
    found = computed([Case(ptx, None) for ptx in expected], [x], "u4")
    for (ptx, values), got in zip(expected.items(), found, strict=True):
        np.testing.assert_array_equal(got, values, err_msg=ptx)


# ---- memory ----


WIDTHS = [
    ("f4", "f32", 1), ("f4", "f32", 2), ("u4", "u32", 4), ("u4", "b32", 2), ("u8", "u64", 1), ("u8", "b64", 2),
    ("f8", "f64", 2), ("u2", "u16", 4), ("u2", "b16", 1),
]  # fmt: skip
HINTS = ("", ".nc", ".nc.L1::no_allocate.L2::128B", ".ca", ".cg", ".cs", ".L1::evict_last")


@pytest.mark.parametrize(
    ("kind", "ptx", "count", "hint"),
    [
        pytest.param(*each, marks=slow_unless(i % 2 == 0))
        for i, each in enumerate([*((*each, "") for each in WIDTHS), *(("f4", "f32", 4, hint) for hint in HINTS)])
    ],
)
def test_loads_and_stores_are_one_access(kind, ptx, count, hint):
    vector = f".v{count}" if count > 1 else ""
    letter = LETTERS[kind]
    registers = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"={letter}"(v[{i}])' for i in range(count))
    inputs = ", ".join(f'"{letter}"(v[{i}])' for i in range(count))
    stored = ", ".join(f"%{i + 1}" for i in range(count))
    text = f"""extern "C" __global__ void kernel(const {TYPES[kind]}* x, {TYPES[kind]}* out) {{
    {TYPES[kind]} v[{count}];
    __shared__ alignas(16) {TYPES[kind]} s[{32 * count}];
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&s[{count} * threadIdx.x]));
    asm volatile("ld.global{hint}{vector}.{ptx} {{ {registers} }}, [%{count}];"
                 : {outputs} : "l"(x + {count} * threadIdx.x));
    asm volatile("st.shared{vector}.{ptx} [%0], {{ {stored} }};" :: "r"(at), {inputs} : "memory");
    for (int i = 0; i < {count}; ++i) v[i] = 0;
    asm volatile("ld.shared{vector}.{ptx} {{ {registers} }}, [%{count}];" : {outputs} : "r"(at) : "memory");
    asm volatile("st.global.wt{vector}.{ptx} [%0], {{ {stored} }};"
                 :: "l"(out + {count} * threadIdx.x), {inputs} : "memory");
}}"""
    if count == 1:
        text = text.replace("{ %", "%").replace("%0 },", "%0,").replace("%1 };", "%1;")
    x = np.arange(32 * count).astype(kind)
    out = np.zeros_like(x)
    traffic = run(text, x, out).source
    np.testing.assert_array_equal(out, x)
    for each in (traffic.global_load, traffic.global_store, traffic.shared_load, traffic.shared_store):
        assert (each.requests, each.bytes) == (1, 32 * count * x.itemsize)


def test_loads_and_stores_that_order_others():
    text = """extern "C" __global__ void kernel(int* x, int* out) {
    int a, b, c;
    asm volatile("ld.volatile.global.s32 %0, [%1];" : "=r"(a) : "l"(x + threadIdx.x) : "memory");
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(b) : "l"(x + threadIdx.x) : "memory");
    asm volatile("ld.relaxed.cta.global.L1::no_allocate.s32 %0, [%1];" : "=r"(c) : "l"(x + threadIdx.x) : "memory");
    asm volatile("st.release.gpu.global.s32 [%0], %1;" :: "l"(out + threadIdx.x), "r"(a + b + c) : "memory");
}"""
    out = np.zeros(32, "i4")
    traffic = run(text, np.arange(32, dtype="i4"), out).source
    assert (traffic.global_load.requests, traffic.global_store.requests) == (3, 1)
    assert out.tolist() == [3 * i for i in range(32)]


def test_narrow_loads_are_extended():
    text = """extern "C" __global__ void kernel(const unsigned char* x, int* out) {
    int a, b, c; unsigned d;
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(a) : "l"(x + threadIdx.x));
    asm volatile("ld.global.s8 %0, [%1+32];" : "=r"(b) : "l"(x + threadIdx.x));
    asm volatile("ld.global.s16 %0, [%1 + %2];" : "=r"(c) : "l"(x + 2 * threadIdx.x), "n"(64));
    asm volatile("ld.volatile.global.b16 %0, [%1+64];" : "=r"(d) : "l"(x + 2 * threadIdx.x));
    out[threadIdx.x] = a; out[32 + threadIdx.x] = b; out[64 + threadIdx.x] = c; out[96 + threadIdx.x] = d;
    asm volatile("st.global.u8 [%0], %1;" :: "l"(out + 128 + threadIdx.x), "r"(a + 256) : "memory");
}"""
    x = np.random.default_rng(0).integers(0, 256, 128).astype("u1")
    out = np.zeros(160, "i4")
    run(text, x, out)
    assert out[:32].tolist() == x[:32].tolist()
    assert out[32:64].tolist() == x[32:64].view("i1").tolist()
    assert out[64:96].tolist() == x[64:].view("i2").tolist()
    assert out[96:128].tolist() == x[64:].view("u2").tolist()
    assert out[128:].tolist() == x[:32].tolist()


def test_predicated_loads_touch_nothing_else():
    text = """extern "C" __global__ void kernel(const float* x, float* out) {
    float4 v;
    const int inside = threadIdx.x < 20;
    asm volatile(
        "{.reg .pred p;\\n"
        "  mov.b32 %0, 0f3F800000;\\n"
        "  mov.b32 %1, 0;\\n"
        "  mov.b32 %2, 0;\\n"   // a comment
        "  mov.b32 %3, 0;\\n"
        "  setp.ne.b32 p, %5, 0;  // and one of PTX\\n"
        "  @p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];}\\n"
        : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
        : "l"(reinterpret_cast<const float4*>(x) + threadIdx.x), "r"(inside));
    asm volatile("{ .reg .pred p; setp.eq.s32 p, %2, 0; @!p st.global.v2.f32 [%0], {%1, %1}; }"
                 :: "l"(out + 2 * threadIdx.x), "f"(v.x + v.w), "r"(inside));
}"""
    x = np.arange(80, dtype="f4")
    out = np.full(40, -1, "f4")
    run(text, x, out)
    assert out.tolist() == [float(8 * (i // 2) + 3) for i in range(40)]


COPIES = """extern "C" __global__ void kernel(const float* x, float* out) {{
    __shared__ alignas(16) float s[2][128];
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&s[0][4 * threadIdx.x]));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\\n" :: "r"(at), "l"(x + 4 * threadIdx.x));
    asm volatile("cp.async.commit_group;\\n" ::);
    asm volatile("cp.async.ca.shared::cta.global.L2::128B [%0 + 512], [%1], %2, %3;"
                 ::"r"(at), "l"(x + 128 + 4 * threadIdx.x), "n"(16), "r"(threadIdx.x < 16 ? 16 : 0) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    {wait}
    __syncthreads();
    out[threadIdx.x] = s[{stage}][127 - threadIdx.x];
    __syncthreads();   // nobody reads what the last copies write
    asm volatile("cp.async.wait_all;");
}}"""


@pytest.mark.parametrize(
    ("wait", "stage", "kinds"),
    [
        ('asm volatile("cp.async.wait_group %0;" :: "n"(1));', 0, []),
        ('asm volatile("cp.async.wait_group 1;");', 1, [("copy not waited for", 11)]),
        ('asm volatile("cp.async.wait_group 0;");', 1, []),
        ('asm volatile("cp.async.wait_all;");', 1, []),
    ],
)
def test_asynchronous_copies(wait, stage, kinds):
    x, out = np.arange(1, 257, dtype="f4"), np.zeros(128, "f4")
    assert findings(COPIES.format(wait=wait, stage=stage), x, out) == kinds
    if not kinds:
        assert out[:32].tolist() == ([0.0] * 32 if stage else [float(128 - i) for i in range(32)])


def test_copies_of_no_group_are_not_waited_for():
    text = COPIES.format(wait='asm volatile("cp.async.wait_group 0;");', stage=1)
    assert findings(text, np.ones(256, "f4"), np.zeros(128, "f4")) == []
    text = text.replace('asm volatile("cp.async.commit_group;" ::: "memory");', "")
    assert findings(text, np.ones(256, "f4"), np.zeros(128, "f4")) == [("copy not waited for", 11)]


COMMITS = """
#include <cuda_pipeline.h>
__global__ void kernel(const float* x, float* y) {
    __shared__ float s[64];
    FIRST
    __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);
    NEXT
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
    LAST
}
"""


@pytest.mark.parametrize(
    ("first", "following", "last", "said"),
    [
        ("", "__pipeline_wait_prior(0);", "", "not been committed: a commit is missing before the wait at kernel.cu:7"),
        ("", "__pipeline_wait_prior(0);", "__pipeline_commit();", "a commit is missing before the wait at kernel.cu:7"),
        ("__pipeline_wait_prior(0);", "", "", "has not been committed: a commit is missing, and"),
        ("", "__pipeline_commit(); __pipeline_wait_prior(1);", "", "has not been waited for"),
    ],
)  # fmt: skip
def test_a_copy_that_is_not_committed_is_named_so(first, following, last, said):
    text = COMMITS.replace("FIRST", first).replace("NEXT", following).replace("LAST", last)
    (found,) = simulator.launch(text, 1, 64, (np.ones(64, "f4"), np.zeros(64, "f4"))).findings
    assert (found.kind, found.line, found.other_line) == ("copy not waited for", 9, 6)
    assert said in found.message


def test_copies_are_predicated_or_ignored():
    text = """extern "C" __global__ void kernel(const int* x, int* out) {
    __shared__ alignas(16) int s[64];
    unsigned at;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(at) : "l"(s + threadIdx.x));
    s[threadIdx.x] = -1;
    asm volatile("{\\n .reg .pred p;\\n setp.ne.b32 p, %0, 0;\\n @p cp.async.ca.shared.global [%1], [%2], 4;\\n}\\n"
                 ::"r"(static_cast<int>(threadIdx.x < 8)), "r"(at), "l"(x + threadIdx.x));
    asm volatile("{ .reg .pred p; setp.ge.u32 p, %2, 8; cp.async.ca.shared.global [%0], [%1], 4, p; }"
                 ::"r"(at + 128), "l"(x + threadIdx.x), "r"(threadIdx.x));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x]; out[32 + threadIdx.x] = s[32 + threadIdx.x];
}"""
    out = np.zeros(64, "i4")
    run(text, np.arange(100, 108, dtype="i4"), out)
    assert out.tolist() == [*range(100, 108), *[-1] * 24, *range(100, 108), *[0] * 24]


# ---- matrices ----


@pytest.mark.parametrize(
    ("count", "transposed"),
    [
        pytest.param(count, transposed, marks=slow_unless(count == (1 if transposed else 2) or count == 4))
        for count in (1, 2, 4)
        for transposed in (False, True)
    ],
)
def test_ldmatrix(count, transposed):
    registers = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    text = f"""extern "C" __global__ void kernel(const unsigned short* x, unsigned* out) {{
    __shared__ alignas(128) unsigned short s[{64 * count}];
    for (int i = threadIdx.x; i < {64 * count}; i += 32) s[i] = x[i];
    __syncthreads();
    unsigned r[{count}];
    const unsigned at = __cvta_generic_to_shared(s + 8 * (threadIdx.x % {8 * count}));
    asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{".trans" * transposed}.shared.b16 {{{registers}}}, [%{count}];\\n"
                 : {outputs} : "r"(at));
    for (int i = 0; i < {count}; ++i) out[32 * i + threadIdx.x] = r[i];
}}"""
    x = np.arange(64 * count, dtype="u2")
    out = np.zeros(32 * count, "u4")
    load = run(text, x, out).source.shared_load
    matrices = x.reshape(count, 8, 8)
    np.testing.assert_array_equal(
        out.view("u2").reshape(count, 8, 8), matrices.swapaxes(1, 2) if transposed else matrices
    )
    assert (load.requests, load.lanes, load.bytes, load.wavefronts) == (1, 8 * count, 128 * count, count)


@pytest.mark.parametrize(
    ("count", "transposed"),
    [
        pytest.param(count, transposed, marks=slow_unless(count == (1 if transposed else 2) or count == 4))
        for count in (1, 2, 4)
        for transposed in (False, True)
    ],
)
def test_stmatrix(count, transposed):
    registers = ", ".join(f"%{i + 1}" for i in range(count))
    inputs = ", ".join(f'"r"(x[{32 * i} + threadIdx.x])' for i in range(count))
    text = f"""extern "C" __global__ void kernel(const unsigned* x, unsigned short* out) {{
    __shared__ alignas(128) unsigned short s[{64 * count}];
    const unsigned at = __cvta_generic_to_shared(s + 8 * (threadIdx.x % {8 * count}));
    asm volatile("stmatrix.sync.aligned.m8n8.x{count}{".trans" * transposed}.shared.b16 [%0], {{{registers}}};"
                 : : "r"(at), {inputs} : "memory");
    __syncthreads();
    for (int i = threadIdx.x; i < {64 * count}; i += 32) out[i] = s[i];
}}"""
    x = np.arange(64 * count, dtype="u2")
    out = np.zeros(64 * count, "u2")
    store = run(text, x.view("u4"), out).source.shared_store
    matrices = x.reshape(count, 8, 8)
    np.testing.assert_array_equal(out.reshape(count, 8, 8), matrices.swapaxes(1, 2) if transposed else matrices)
    assert (store.requests, store.lanes, store.bytes, store.wavefronts) == (1, 8 * count, 128 * count, count)


def bits_of(values: np.ndarray, kind: str) -> np.ndarray:
    """Return elements as unsigned integers of their size, or as float64."""
    if kind == "bf16":
        return (values.astype("f4").view("u4") >> 16).astype("u2")
    return values.astype({"f16": "f2", "tf32": "f4", "s8": "i1", "u8": "u1", "f64": "f8"}[kind])


MMAS = [
    ("m16n8k16", "f32", "f16", "f16"), ("m16n8k8", "f32", "f16", "f16"), ("m16n8k16", "f16", "f16", "f16"),
    ("m16n8k8", "f16", "f16", "f16"), ("m16n8k16", "f32", "bf16", "bf16"), ("m16n8k8", "f32", "bf16", "bf16"),
    ("m16n8k8", "f32", "tf32", "tf32"), ("m16n8k4", "f32", "tf32", "tf32"), ("m16n8k32", "s32", "s8", "s8"),
    ("m16n8k16", "s32", "u8", "u8"), ("m8n8k16", "s32", "s8", "s8"), ("m16n8k32", "s32", "u8", "s8"),
    ("m8n8k4", "f64", "f64", "f64"), ("m16n8k4", "f64", "f64", "f64"), ("m16n8k8", "f64", "f64", "f64"),
    ("m16n8k16", "f64", "f64", "f64"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "of_sum", "of_a", "of_b"),
    [pytest.param(*each, marks=slow_unless(i % 2 == 0 or each[2] != each[3])) for i, each in enumerate(MMAS)],
)
def test_mma(shape, of_sum, of_a, of_b):
    m, k = map(int, re.findall(r"m(\d+)n8k(\d+)", shape)[0])
    rng = np.random.default_rng(2)
    low = {"u8": 0}
    a, b, c = (
        rng.integers(low.get(kind, -4), 5, size) for kind, size in ((of_a, (m, k)), (of_b, (8, k)), (of_sum, (m, 8)))
    )
    wide = of_sum == "f64"
    factor, letter = ("double", "d") if wide else ("unsigned", "r")
    sums, sum_letter = {"f32": ("float", "f"), "s32": ("int", "r"), "f64": ("double", "d")}.get(
        of_sum, ("unsigned", "r")
    )
    a_bits, b_bits = (bits_of(each, kind).view("f8" if wide else "u4") for each, kind in ((a, of_a), (b, of_b)))
    c_values = c.astype({"f32": "f4", "s32": "i4", "f64": "f8", "f16": "f2"}[of_sum])
    c_bits = c_values.view("u4") if of_sum == "f16" else c_values
    words, columns = a_bits.shape[1], c_bits.shape[1]
    counts = (m // 8 * columns // 4, m // 8 * words // 4, words // 4)
    names = iter(range(sum(counts)))
    d_text, a_text, b_text = (", ".join(f"%{next(names)}" for _ in range(count)) for count in counts)
    outputs, inputs_a, inputs_b = (
        ", ".join(f'"{constraint}"({name}[{i}])' for i in range(count))
        for constraint, name, count in zip((f"+{sum_letter}", letter, letter), "zxy", counts, strict=True)
    )
    place = f"(row + {'i' if columns == 4 else 'i / 2'} * 8) * {columns} + "
    place += "quad" if columns == 4 else "2 * quad + i % 2"
    text = f"""extern "C" __global__ void kernel(const {factor}* a, const {factor}* b, const {sums}* c, {sums}* out) {{
    const int row = threadIdx.x / 4, quad = threadIdx.x % 4;
    {factor} x[{counts[1]}], y[{counts[2]}];
    {sums} z[{counts[0]}];
    for (int i = 0; i < {counts[1]}; ++i) x[i] = a[(row + i % {m // 8} * 8) * {words} + quad + i / {m // 8} * 4];
    for (int i = 0; i < {counts[2]}; ++i) y[i] = b[row * {words} + quad + i * 4];
    for (int i = 0; i < {counts[0]}; ++i) z[i] = c[{place}];
    asm volatile(
        "mma.sync.aligned.{shape}.row.col.{of_sum}.{of_a}.{of_b}.{of_sum} "
        "{{{d_text}}}, {{{a_text}}}, {{{b_text}}}, "
        "{{{d_text}}};\\n"
        : {outputs}
        : {inputs_a}, {inputs_b});
    for (int i = 0; i < {counts[0]}; ++i) out[{place}] = z[i];
}}"""
    out = np.zeros_like(c_bits)
    run(text, a_bits.copy(), b_bits.copy(), c_bits.copy(), out)
    np.testing.assert_array_equal(out.view(c_values.dtype), a @ b.T + c)


def test_mma_with_other_accumulators():
    """Check an mma whose operands C and D are different registers, with C a constant."""
    text = """extern "C" __global__ void kernel(const unsigned* a, float* out) {
    float d[4];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%5,%5,%5,%5};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]) : "r"(a[0]), "f"(0.5f));
    for (int i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = d[i];
}"""
    out = np.zeros(128, "f4")
    run(text, np.array([0x40004000], "u4"), out)
    assert set(out.tolist()) == {64.5}


PIPELINED = """#include <TYPES>
#define CP_ASYNC(to, from) \\
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\\n" ::"r"(to), "l"(from), "n"(16))
#define LDMATRIX_X4(r0, r1, r2, r3, at)                                                  \\
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\\n"   \\
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)                                \\
                 : "r"(at))
constexpr int BM = 32, BN = 16, BK = 16;

// C = A @ B^T of float16: a block of two warps computes 32 x 16 elements, in two stages.
extern "C" __global__ void kernel(const unsigned short* a, const unsigned short* b, float* c) {
    __shared__ alignas(16) unsigned short As[2][BM][BK], Bs[2][BN][BK];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float acc[2][4] = {};
    auto load = [&](int stage, int k0) {
        const int row = threadIdx.x / 2, chunk = threadIdx.x % 2 * 8;
        CP_ASYNC((unsigned)__cvta_generic_to_shared(&As[stage][row][chunk]),
                 a + (blockIdx.y * BM + row) * K + k0 + chunk);
        if (row < BN)
            CP_ASYNC((unsigned)__cvta_generic_to_shared(&Bs[stage][row][chunk]),
                     b + (blockIdx.x * BN + row) * K + k0 + chunk);
        asm volatile("cp.async.commit_group;\\n" ::);
    };
    load(0, 0);
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int stage = k0 / BK % 2;
        if (k0 + BK < K) {
            load(stage ^ 1, k0 + BK);
            asm volatile("cp.async.wait_group %0;\\n" ::"n"(1));
        } else {
            asm volatile("cp.async.wait_group 0;\\n" ::);
        }
        __syncthreads();
        unsigned x[4], y[4];
        LDMATRIX_X4(x[0], x[1], x[2], x[3],
                    (unsigned)__cvta_generic_to_shared(&As[stage][warp * 16 + lane % 16][lane / 16 * 8]));
        LDMATRIX_X4(y[0], y[1], y[2], y[3],
                    (unsigned)__cvta_generic_to_shared(&Bs[stage][lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]));
        for (int j = 0; j < 2; ++j)
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                "{%0,  %1,  %2,  %3}, {%4,  %5,  %6,  %7}, {%8,  %9}, {%10, %11, %12, %13};\\n"
                : "=f"(acc[j][0]), "=f"(acc[j][1]), "=f"(acc[j][2]), "=f"(acc[j][3])
                : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * j]), "r"(y[2 * j + 1]),
                  "f"(acc[j][0]), "f"(acc[j][1]), "f"(acc[j][2]), "f"(acc[j][3]));
        __syncthreads();
    }
    for (int j = 0; j < 2; ++j)
        for (int i = 0; i < 2; ++i) {
            const int row = blockIdx.y * BM + warp * 16 + lane / 4 + i * 8;
            const int col = blockIdx.x * BN + j * 8 + lane % 4 * 2;
            asm volatile("st.global.cs.v2.f32 [%0], {%1, %2};"
                         ::"l"(c + row * N + col), "f"(acc[j][2 * i]), "f"(acc[j][2 * i + 1]));
        }
}
"""


def pipelined(*edits: tuple[str, str]) -> simulator.Report:
    """Run the pipelined kernel for M, N, K of 64, 48, 80 after edits of its text."""
    m, n, k = 64, 48, 80
    text = PIPELINED.replace("#include <TYPES>", f"constexpr int N = {n}, K = {k};")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype("f2") for shape in ((m, k), (n, k)))
    c = np.zeros((m, n), "f4")
    check_ptx(text)
    expected = a.astype("f4") @ b.astype("f4").T
    return simulator.launch(text, (n // 16, m // 32), 64, (a.view("u2"), b.view("u2"), c), expected={"c": expected})


def test_a_pipelined_kernel():
    m, n, k = 64, 48, 80
    report = pipelined()
    report.check()
    warps = m * n // 256
    assert report.source.copy_load.bytes == 2 * (m * k * n // 16 + n * k * m // 32)
    assert report.source.shared_load.requests == 2 * warps * k // 16
    assert report.source.global_store.requests == 4 * warps
    assert report.flops == 2 * m * n * k


@pytest.mark.slow
def test_bugs_of_a_pipelined_kernel_are_found():
    wait = '"cp.async.wait_group %0;\\n" ::"n"({})'
    early = pipelined((wait.format(1), wait.format(2)))
    assert {found.kind for found in early.findings} >= {"copy not waited for"}
    unordered = pipelined(("        __syncthreads();\n    }", "    }"))
    assert "race on shared memory" in {found.kind for found in unordered.findings}


# ---- warps, registers, barriers ----

LANES = list(range(32))
WARP = {
    "shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;": [i ^ 1 for i in LANES],
    "shfl.sync.down.b32 %0, %1, 4, 0x1f, -1;": [*range(4, 32), *range(28, 32)],
    "shfl.sync.up.b32 %0, %1, 3, 0, -1;": [i - 3 if i >= 3 else i for i in LANES],
    "shfl.sync.idx.b32 %0, %1, 9, 0x1f, -1;": [9] * 32,
    "shfl.sync.idx.b32 %0, %1, 1, 0x181f, -1;": [i // 8 * 8 + 1 for i in LANES],
    "{ .reg .pred p; shfl.sync.up.b32 %0|p, %1, 2, 0, -1; @!p mov.u32 %0, 77; }": [77, 77, *range(30)],
    "{ .reg .pred p; setp.gt.u32 p, %1, 3; vote.sync.ballot.b32 %0, p, 0xffffffff; }": [0xFFFFFFF0] * 32,
    "{ .reg .pred p, q; setp.gt.u32 p, %1, 3; vote.sync.any.pred q, p, -1; selp.u32 %0, 1, 0, q; }": [1] * 32,
    "{ .reg .pred p, q; setp.gt.u32 p, %1, 3; vote.sync.all.pred q, !p, -1; selp.u32 %0, 1, 0, q; }": [0] * 32,
    "redux.sync.add.u32 %0, %1, 0xffffffff;": [496] * 32,
    "redux.sync.max.s32 %0, %1, 0xffffffff;": [31] * 32,
    "redux.sync.xor.b32 %0, %1, 0xffffffff;": [0] * 32,
    "mov.u32 %0, %%laneid;": LANES,
    "mov.u32 %0, %laneid;": LANES,
    "mov.u32 %0, %%lanemask_lt;": [(1 << i) - 1 for i in LANES],
    "mov.u32 %0, %%tid.x;": LANES,
    "mov.u32 %0, %%ntid.x;": [32] * 32,
    "mov.u32 %0, %%warpid;": [0] * 32,
    "mov.u32 %0, WARP_SZ;": [32] * 32,
    "bar.sync 0; mov.u32 %0, %%ctaid.x;": [0] * 32,
    "bar.warp.sync 0xffffffff; membar.gl; fence.acq_rel.gpu; nanosleep.u32 20; mov.u32 %0, 3;": [3] * 32,
    "barrier.sync 0; mov.u32 %0, 4;": [4] * 32,
    "barrier.sync.aligned 0; mov.u32 %0, 4;": [4] * 32,
    "": [0] * 32,
}  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
def test_warps_and_special_registers(order):
    body = "\n".join(
        f'{{ unsigned y = 0; asm volatile("{ptx}" : "+r"(y) : "r"(threadIdx.x)); out[{32 * i} + threadIdx.x] = y; }}'
        for i, ptx in enumerate(WARP)
    )
    out = np.full(32 * len(WARP), 999, "u4")
    run(f'extern "C" __global__ void kernel(unsigned* out) {{\n{body}\n}}', out, order=order)
    for (ptx, expected), found in zip(WARP.items(), out.reshape(-1, 32).tolist(), strict=True):
        assert found == expected, ptx


def test_the_clock_runs():
    text = """extern "C" __global__ void kernel(unsigned long long* out) {
    unsigned long long first, second; unsigned third;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(first));
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(second) :: "memory");
    asm volatile("mov.u32 %0, %clock;" : "=r"(third));
    out[threadIdx.x] = second >= first && first;
}"""
    out = np.zeros(32, "u8")
    run(text, out)
    assert out.tolist() == [1] * 32


# ---- the statement in its text ----


def test_text_without_statements_is_unchanged():
    text = """// asm volatile("trap;");
/* asm("trap;") */ const char* asmara = "asm volatile(\\"trap;\\");"; char c = '"'; int one = 1'000;
const char* raw = R"x(asm("trap;"))x"; void myasm(int); /* " */
#ifndef TILEDMM_SIMULATOR   // as in cuda_src
asm("trap;");
#if __CUDA_ARCH__ >= 800
asm("trap;");
#else
asm("trap;");
#endif
#endif
#if !defined(TILEDMM_SIMULATOR)
asm("trap;");
#else
#endif
#ifdef TILEDMM_SIMULATOR
#else
asm("trap;");
#endif
"""
    assert inline_ptx.translate(text) == text
    assert "trap;" not in inline_ptx.translate(text + 'asm("trap;");').splitlines()[-1]


@pytest.mark.parametrize(
    "keyword", ["asm", "__asm__", "asm volatile", "asm __volatile__", "__asm__ __volatile__", "asm\n  volatile"]
)
def test_spellings_and_lines(keyword):
    text = f"""int before;
    {keyword}(   // why ; ) "
      "mov.u32 "  /* "x" */
      R"(%0, %1;)" "\\n"
      "\\141dd.u32 %0, %0,\\t1;"
      : "=r"(y[f(1, "a)b")])   // out
      : "r"(::name
           + 1)
      : "memory"
    ); int after = __LINE__;
"""
    translated = inline_ptx.translate(text)
    assert translated.count("\n") == text.count("\n")
    lines = translated.splitlines()
    assert lines[0] == "int before;"
    statement = lines[1].strip()
    assert statement.startswith("do {") and statement.endswith("} while (0)")
    assert 'y[f(1, "a)b")]' in statement and "::name" in statement and "+ 1)" in statement
    assert "tiledmm_ptx::add" in statement
    assert [line for line in lines[2:-1] if line] == []
    assert lines[-1] == "; int after = __LINE__;"


def test_statements_in_macros_and_templates():
    text = """#define MOVE(to, from) \\
    asm volatile("add.u32 %0, %1, %2;" \\
                 : "=r"(to) \\
                 : "r"(from), "n"(N + 1))
template <int N>
__device__ __forceinline__ unsigned moved(unsigned x) {
    unsigned y;
    if (N == 3) MOVE(y, x); else asm("mov.u32 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}
extern "C" __global__ void kernel(unsigned* out) {
    unsigned tmp = 5;
    asm volatile("" : "+r"(tmp) :: "memory");
    auto add = [&](auto x) { asm("add.u32 %0, %0, %1;" : "+r"(tmp) : "r"(x)); };
    add(threadIdx.x);
    out[threadIdx.x] = 10000 * moved<3>(threadIdx.x) + 100 * moved<1>(threadIdx.x) + tmp;
    out[32 + threadIdx.x] = __LINE__;
}"""
    out = np.zeros(64, "u4")
    run(text, out)
    assert out.tolist() == [10000 * (i + 4) + 100 * i + 5 + i for i in LANES] + [17] * 32


def test_outputs_of_other_types():
    text = """extern "C" __global__ void kernel(int* out) {
    float f; short s; const int* p; bool flag; double d; unsigned char narrow = 200; unsigned* u = (unsigned*)out;
    asm("mov.b32 %0, %1;" : "=r"(reinterpret_cast<unsigned&>(f)) : "r"(__float_as_uint(2.5f)));
    asm("mov.b16 %0, %1;" : "=h"(s) : "h"(static_cast<short>(-7)));
    asm("mov.b64 %0, %1;" : "=l"(p) : "l"(out + 1));
    asm("add.f64 %0, %1, 0.5;" : "=d"(d) : "d"(4.0));
    asm("add.u32 %0, %1, %2;" : "=r"(u[threadIdx.x]) : "r"(-1), "r"((int)narrow));
    out[32 + threadIdx.x] = int(f * 2) + 10 * s + 100 * int(p - out) + int(d * 2) * 1000;
}"""
    out = np.zeros(64, "i4")
    run(text, out)
    assert out.tolist() == [199] * 32 + [5 - 70 + 100 + 9000] * 32


# ---- findings ----


def test_findings_name_the_line_of_the_statement():
    text = """extern "C" __global__ void kernel(const float* x, float* out) {
    __shared__ alignas(16) float s[132];
    const unsigned at = __cvta_generic_to_shared(s + 4 * threadIdx.x);

    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;"
        :: "r"(at), "l"(x + 4 * threadIdx.x + SHIFT));
    asm volatile("cp.async.wait_all;\\n" ::);
    __syncthreads();
    asm volatile("st.global.f32 [%0], %1;"
                 :: "l"(out + threadIdx.x), "f"(s[threadIdx.x]));
}"""
    x, out = np.ones(128, "f4"), np.zeros(32, "f4")
    run(text.replace("SHIFT", "0"), x, out)
    for shift, kind in (("4", "global access out of bounds"), ("1", "misaligned access")):
        found = launch(text.replace("SHIFT", shift), x, out).findings[0]
        assert (found.kind, found.line, found.location, found.text.strip()) == (kind, 5, "kernel.cu:5", "asm volatile(")
        assert "16 bytes" in found.message
    outside = text.replace("SHIFT", "0").replace("[%0], %1;", "[%0+4], %1;")
    assert findings(outside, x, out)[0] == ("global access out of bounds", 10)
    outside = text.replace("SHIFT", "0").replace("[%0], [%1]", "[%0+32], [%1]")
    assert findings(outside, x, out)[0] == ("shared access out of bounds", 5)


@pytest.mark.skipif("atomicCAS" not in NATIVE_TEXT, reason="without atomics")
def test_atomics():
    cases = {
        "atom.global.add.u32 %0, [%1], %2;": (7, 12),
        "atom.relaxed.gpu.global.min.s32 %0, [%1], -3;": (0, -3),
        "atom.acq_rel.gpu.global.max.u32 %0, [%1], %2;": (7, 7),
        "atom.global.exch.b32 %0, [%1+0], %2;": (7, 7),
        "atom.global.cas.b32 %0, [%1], 5, %2;": (7, 7),
        "atom.global.cas.b32 %0, [%1], 6, %2;": (7, 5),
        "atom.add.u32 %0, [%1], %2;": (7, 12),
        "red.release.gpu.global.add.s32 [%1], %2; mov.u32 %0, 5;": (7, 12),
        "atom.global.or.b32 %0, [%1], %2;": (10, 15),
        "atom.global.inc.u32 %0, [%1], 5;": (0, 0),
    }
    body = "\n".join(
        f'asm volatile("{ptx}" : "=r"(out[{i}]) : "l"(x + {i}), "r"({value}) : "memory");'
        for i, (ptx, (value, _)) in enumerate(cases.items())
    )
    text = f"""extern "C" __global__ void kernel(int* x, int* out) {{
    if (threadIdx.x) return;
    {body}
}}"""
    x, out = np.full(len(cases), 5, "i4"), np.zeros(len(cases), "i4")
    run(text, x, out)
    assert dict(zip(cases, x.tolist(), strict=True)) == {ptx: after for ptx, (_, after) in cases.items()}
    assert out.tolist() == [5] * len(cases)


@pytest.mark.skipif("atomicCAS" not in NATIVE_TEXT, reason="without atomics")
def test_atomics_of_other_types():
    text = """extern "C" __global__ void kernel(float* x, unsigned long long* y) {
    __shared__ float s; __shared__ unsigned t;
    if (threadIdx.x == 0) { s = 0; t = 0; }
    asm volatile("bar.sync 0;" ::: "memory");
    const unsigned at = __cvta_generic_to_shared(&s), count = __cvta_generic_to_shared(&t);
    asm volatile("red.shared.add.f32 [%0], %1;" :: "r"(at), "f"(0.5f) : "memory");
    asm volatile("{ .reg .u32 old; atom.shared.add.u32 old, [%0], 1; }" :: "r"(count) : "memory");
    asm volatile("red.global.add.f32 [%0], %1;" :: "l"(x + 1), "f"(1.5f) : "memory");
    asm volatile("red.global.add.u64 [%0], %1;" :: "l"(y), "l"(1ull << 33) : "memory");
    asm volatile("barrier.sync 0;" ::: "memory");
    if (threadIdx.x == 0) { x[0] = s + 100 * t; }
}"""
    x, y = np.zeros(2, "f4"), np.zeros(1, "u8")
    run(text, x, y)
    assert (x.tolist(), y.tolist()) == ([3216.0, 48.0], [1 << 38])


@pytest.mark.skipif("named_barrier" not in NATIVE_TEXT, reason="without named barriers")
def test_named_barriers():
    text = """extern "C" __global__ void kernel(int* out) {
    __shared__ int s[96];
    const int warp = threadIdx.x / 32;
    s[threadIdx.x] = threadIdx.x;
    if (warp == 0) {
        asm volatile("bar.sync %0, %1;" :: "r"(1), "n"(64) : "memory");
        out[threadIdx.x] = s[threadIdx.x + 32];
    } else {
        if (warp == 1) asm volatile("bar.arrive 1, 64;" ::: "memory");
        out[threadIdx.x] = 0;
    }
    asm volatile("bar.sync 2;" ::: "memory");
}"""
    out = np.zeros(96, "i4")
    check_ptx(text)
    simulator.launch(text, 1, 96, (out,)).check()
    assert out.tolist() == [*range(32, 64), *[0] * 64]
    early = text.replace("bar.arrive 1, 64;", "").replace("64", "32")
    assert "race on shared memory" in [found.kind for found in simulator.launch(early, 1, 96, (out,)).findings]


def test_races_are_found():
    text = """extern "C" __global__ void kernel(float* out) {
    __shared__ float s[32];
    const unsigned at = __cvta_generic_to_shared(s);
    asm volatile("st.shared.f32 [%0], %1;" :: "r"(at + 4 * threadIdx.x), "f"(1.0f) : "memory");
    BARRIER
    float y;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(y) : "r"(at + 4 * (threadIdx.x ^ 1)) : "memory");
    out[threadIdx.x] = y;
}"""
    out = np.zeros(32, "f4")
    run(text.replace("BARRIER", 'asm volatile("bar.sync 0;" ::: "memory");'), out)
    assert ("race on shared memory", 7) in findings(text.replace("BARRIER", ""), out)


def test_a_trap():
    text = 'extern "C" __global__ void kernel(int* out) {\n  if (threadIdx.x == 3) asm("trap;");\n}'
    assert findings(text, np.zeros(1, "i4")) == [("trap", 2)]


def test_carries():
    body = """
    unsigned* to = out + 4 * threadIdx.x;
    const unsigned *a = x + 4 * threadIdx.x, *b = y + 4 * threadIdx.x;
    asm("OP.cc.u32 %0, %4, %8; OPc.cc.u32 %1, %5, %9; OPc.cc.s32 %2, %6, %10; OPc.u32 %3, %7, %11;"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]));"""
    rng = np.random.default_rng(0)
    values = rng.choice(np.array([0, 1, 2**32 - 1, 2**31, 12345], "u4"), (2, 32, 4))
    wide = [[sum(int(part) << 32 * i for i, part in enumerate(row)) for row in each] for each in values]
    for opcode, sign in (("add", 1), ("sub", -1)):
        out = np.zeros((32, 4), "u4")
        text = 'extern "C" __global__ void kernel(const unsigned* x, const unsigned* y, unsigned* out) {%s}'
        run(text % body.replace("OP", opcode), *values, out)
        found = [sum(int(part) << 32 * i for i, part in enumerate(row)) for row in out]
        assert found == [(a + sign * b) % 2**128 for a, b in zip(*wide, strict=True)], opcode


LONG_SUM = """
extern "C" __global__ void kernel(const unsigned* x, const unsigned* y, unsigned* out) {
    const int at = 3 * threadIdx.x;
    asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(out[at]) : "r"(x[at]), "r"(y[at]));
    asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(out[at + 1]) : "r"(x[at + 1]), "r"(y[at + 1]));
    asm volatile("addc.u32 %0, %1, %2;" : "=r"(out[at + 2]) : "r"(x[at + 2]), "r"(y[at + 2]));
}"""


def long_sum(text: str) -> tuple[simulator.Report, list[int], list[int]]:
    values = np.random.default_rng(0).choice(np.array([0, 1, 2**32 - 1, 2**31], "u4"), (2, 32, 3))
    out = np.zeros((32, 3), "u4")
    report = simulator.launch(text, 1, 32, (*values, out))
    wide = [[sum(int(part) << 32 * i for i, part in enumerate(row)) for row in each] for each in (*values, out)]
    return report, [(a + b) % 2**96 for a, b in zip(*wide[:2], strict=True)], wide[2]


def test_a_thread_keeps_its_carry_from_one_statement_to_the_next():
    report, expected, result = long_sum(LONG_SUM)
    report.check()
    assert not report.warnings
    assert result == expected


@pytest.mark.parametrize("at", [4, 5, 6])
def test_a_carry_between_statements_that_are_not_volatile_is_a_warning(at):
    lines = LONG_SUM.split("\n")
    lines[at - 1] = lines[at - 1].replace("asm volatile", "asm")
    report, expected, result = long_sum("\n".join(lines))
    assert result == expected and report.ok
    assert {each.kind for each in report.warnings} == {"carry between asm statements that are not volatile"}
    assert {each.line for each in report.warnings} == {line for line in (at, at + 1) if 5 <= line <= 6}


def test_a_carry_that_nothing_has_set_is_found():
    report, _, _ = long_sum(LONG_SUM.replace("add.cc.u32", "add.u32"))
    (found,) = report.findings
    assert (found.kind, found.line) == ("call that cannot be made", 5) and "carry flag" in found.message


def test_products_with_carries():
    text = """
extern "C" __global__ void kernel(const unsigned long long* x, unsigned long long* out) {
    const int at = threadIdx.x;
    unsigned low = 7, middle = 0xffffffffu, high = 3;
    asm("mad.lo.cc.u32 %0, %3, %4, %0; madc.hi.cc.u32 %1, %3, %4, %1; addc.u32 %2, %2, 0;"
        : "+r"(low), "+r"(middle), "+r"(high) : "r"((unsigned)x[at]), "r"((unsigned)(x[at] >> 32)));
    out[3 * at] = (unsigned long long)middle << 32 | low, out[3 * at + 1] = high;
    asm("{ .reg .u64 t; add.cc.u64 t, %1, %1; addc.u64 %0, 0, 0; }" : "=l"(out[3 * at + 2]) : "l"(x[at]));
}"""
    x = integers("u8", 1)[0][:32]
    out = np.zeros((32, 3), "u8")
    run(text, x, out)
    for value, found in zip(x.tolist(), out.tolist(), strict=True):
        total = (value & 0xFFFFFFFF) * (value >> 32) + (3 << 64 | 0xFFFFFFFF << 32 | 7)
        assert found == [total & (2**64 - 1), total >> 64, value >> 63]


def test_barriers_that_reduce():
    text = """
extern "C" __global__ void kernel(const int* x, int* out) {
    __shared__ int held[64];
    int count, all, any;
    held[threadIdx.x] = x[threadIdx.x];
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %3, 0; bar.red.popc.u32 %0, 0, p; bar.red.and.pred q, 0, p;\\n"
        "selp.s32 %1, 1, 0, q; barrier.cta.red.or.pred q, 0, !p; selp.s32 %2, 1, 0, q; }"
        : "=r"(count), "=r"(all), "=r"(any) : "r"(x[threadIdx.x]) : "memory");
    out[threadIdx.x] = count + 100 * all + 1000 * any + 10000 * held[63 - threadIdx.x];
}"""
    check_ptx(text)
    for x in (np.arange(64) % 3, np.ones(64), np.zeros(64)):
        x = x.astype("i4")
        out = np.zeros(64, "i4")
        simulator.launch(text, 1, 64, (x, out)).check()
        expected = np.count_nonzero(x) + 100 * x.all() + 1000 * (x == 0).any() + 10000 * x[::-1]
        np.testing.assert_array_equal(out, expected)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("ptx", "says"),
    [
        ("tcgen05.wait::ld.sync.aligned;", "'tcgen05.wait::ld.sync.aligned'.*mma.sync"),
        ("frobnicate.u32 %0, %0;", "'frobnicate.u32'.*TILEDMM_SIMULATOR"),
        ("mad.wide.cc.u32 %0, %0, 1, 2;", "'mad.wide.cc.u32'.*\\.lo or \\.hi"),
        ("add.u64 %0, %0, 1;", "%0 .*32 bits.* 64"),
        ("add.u32 %0, %0;", "'add.u32'.* 2 .* 3"),
        ("add.u32 %0, %0, %3;", "%3.* 1 "),
        ("add.u32 %0, %0, k;", "'k'"),
        ("mov.u32 %0, 1", "semicolon"),
        ("{ mov.u32 %0, 1;", "no matching }"),
        ("L: bra L;", "'L:'.*CUDA C"),
        ("bar.sync 0, 64, 2;", r"'bar\.sync'.* 1 or 2"),
        ("{.reg .pred p; bar.red.popc.u32 %0, 1, 64, p;}", r"'bar\.red.*barrier 0"),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0}, {%0}, {%0}, {%0};", "m16n8k8/m16n8k16 of f16"),
        ("cp.async.cg.shared.global [%0], [%0], 8;", "16 bytes"),
    ],
)
def test_what_is_refused_is_named(ptx, says):
    text = f"""
extern "C" __global__ void kernel(int* out) {{
  int x;
  asm volatile("mov.u32 %0, 1;\\n"
    "{ptx}" : "=r"(x));
}}"""
    with pytest.raises(CompilationError) as caught:
        toolchain.build_kernel(text, "kernel", target=TARGETS["sm_90"], build="checked")
    message = str(caught.value)
    assert re.search(says, message)
    assert "\n" not in message and "error:" not in message
    assert re.search(r"PTX.*: kernel\.cu:[456]: ", message)
    assert ("kernel.cu:5: " in message) or ptx.startswith("{")


def test_macros_in_the_text_are_refused():
    text = (
        '#define X ".u32"\nextern "C" __global__ void kernel(int* out) {\n int x; asm("mov" X " %0, 1;" : "=r"(x));\n}'
    )
    with pytest.raises(CompilationError, match=r"kernel\.cu:3: .*'X'"):
        toolchain.build_kernel(text, "kernel", target=TARGETS["sm_90"], build="checked")


def test_functions_and_macros_that_are_not_used_may_contain_anything():
    text = """#define FENCE asm volatile("tcgen05.fence::before_thread_sync;")
#define ANY(instruction) asm volatile(instruction ";")
__device__ __forceinline__ void arrive() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
template <bool BLACKWELL> __device__ void wait() {
    if constexpr (BLACKWELL) asm volatile("tcgen05.wait::st.sync.aligned;"); else asm volatile("membar.cta;");
}
#if __CUDA_ARCH__ >= 1000
asm volatile("tcgen05.wait::ld.sync.aligned;");
#endif
extern "C" __global__ void kernel(int* out) { wait<false>(); out[threadIdx.x] = 1; }"""
    out = np.zeros(32, "i4")
    run(text, out, checked=False)
    assert out.tolist() == [1] * 32
    with pytest.raises(CompilationError, match=r"kernel\.cu:5: .*'tcgen05\.wait::st\.sync\.aligned'"):
        toolchain.build_kernel(
            text.replace("wait<false>", "wait<true>"), "kernel", target=TARGETS["sm_90"], build="checked"
        )
