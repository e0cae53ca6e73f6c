"""Tests of cuda_fp16.h and cuda_bf16.h: every operation is the exact result, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tiledmm import simulator

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)

# Significant bits and the exponent of the smallest subnormal.
FORMATS = {"half": (11, -24), "bfloat16": (8, -133)}
TYPES = {"half": "__half", "bfloat16": "__nv_bfloat16"}
HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
MODES = "nzud"


def value(bits: int, name: str) -> float:
    if name == "half":
        return float(np.array(bits, np.uint16).view(np.float16))
    return float(np.array(int(bits) << 16, np.uint32).view(np.float32))


def rounded(exact: Fraction, mode: str, name: str) -> float:
    """Round an exact number to a number of a format."""
    digits, least = FORMATS[name]
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = least
    while size >= Fraction(2) ** (exponent + digits):
        exponent += 1
    whole, rest = divmod(size, Fraction(2) ** exponent)
    half, away = Fraction(2) ** exponent / 2, mode == ("u" if exact > 0 else "d")
    whole += bool(rest and away) if mode != "n" else rest > half or (rest == half and whole % 2 == 1)
    top = Fraction(2) ** (16 if name == "half" else 128)
    found = Fraction(whole) * Fraction(2) ** exponent
    if found >= top:
        found_or_most = math.inf if mode == "n" or away else float(top - top / 2**digits)
        return found_or_most if exact > 0 else -found_or_most
    return float(found if exact > 0 else -found)


def numbers(name: str, n: int) -> np.ndarray:
    """Return the bits of finite numbers: of all sizes, close to one another, small, and the largest."""
    anything = RNG.integers(0, 2**16, n)
    one = 0x3C00 if name == "half" else 0x3F80
    near = (one + RNG.integers(-300, 300, n)) | RNG.integers(0, 2, n) << 15
    few = RNG.integers(0, 20, n // 4) | RNG.integers(0, 2, n // 4) << 15
    most = 0x7BFF if name == "half" else 0x7F7F
    bits = np.concatenate([anything, near, few, [0, 0x8000, 1, most, most | 0x8000]])
    bits = bits[[math.isfinite(value(each, name)) for each in bits]]
    return RNG.permutation(bits)[:n].astype(np.uint16)


def computed(
    expressions: list[str], name: str, *inputs: np.ndarray, result: str = "unsigned short"
) -> list[np.ndarray]:
    """Compute each expression of x, y and z of a format elementwise, as bits unless ``result`` is another type."""
    n, kind = inputs[0].size, TYPES[name]
    names = "xyz"[: len(inputs)]
    lines = [f"    const {kind} {each} = ((const {kind}*){each}s)[i];" for each in names]
    lines += [
        f"    out[{k} * n + i] = " + (f"__{name}_as_ushort({text})" if result == "unsigned short" else text) + ";"
        for k, text in enumerate(expressions)
    ]
    parameters = ", ".join(f"const unsigned short* {each}s" for each in names)
    text = f"""{HEADERS}__global__ void compute({result}* out, int n, {parameters}) {{
    const int i = threadIdx.x;
{chr(10).join(lines)}
    }}"""
    out = np.zeros((len(expressions), n), {"unsigned short": np.uint16, "int": np.int32, "float": np.float32}[result])
    simulator.launch(text, 1, n, (out, n, *inputs)).check()
    return list(out)


OPERATIONS: dict[str, Callable[..., Fraction]] = {
    "x + y": lambda x, y, z: x + y, "__hsub(x, y)": lambda x, y, z: x - y, "x * y": lambda x, y, z: x * y,
    "__hfma(x, y, z)": lambda x, y, z: x * y + z, "x / y": lambda x, y, z: x / y if y else Fraction(0),
    "__hadd_sat(x, y)": lambda x, y, z: min(max(x + y, Fraction(0)), Fraction(1)), "__habs(x)": lambda x, y, z: abs(x),
    "__hmax(x, y)": lambda x, y, z: max(x, y), "__hmin(x, y)": lambda x, y, z: min(x, y), "-x": lambda x, y, z: -x,
    "__hfma_relu(x, y, z)": lambda x, y, z: max(x * y + z, Fraction(0)),
    "hfloor(x)": lambda x, y, z: Fraction(math.floor(x)),
    "__hadd2(TWO(x, y), TWO(y, z)).y": lambda x, y, z: y + z, "hrint(x)": lambda x, y, z: Fraction(round(x)),
    "(TWO(x, y) * TWO(y, z)).x": lambda x, y, z: x * y,
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_operations_are_rounded_once(name):
    x, y, z = (numbers(name, 400) for _ in range(3))
    two = f"{TYPES[name]}2"
    found = computed([text.replace("TWO", two) for text in OPERATIONS], name, x, y, z)
    for (text, exact), got in zip(OPERATIONS.items(), found, strict=True):
        for i in range(x.size):
            a, b, c = (Fraction(value(each[i], name)) for each in (x, y, z))
            if text == "x / y" and b == 0:
                continue
            assert value(got[i], name) == rounded(exact(a, b, c), "n", name), (text, float(a), float(b), float(c))


@pytest.mark.parametrize("name", FORMATS)
def test_conversions_round_as_their_names_say(name):
    near = numbers(name, 150)
    x = np.array([value(each, name) for each in near]) * (1 + RNG.choice([0, 1, -1], 150) * 2.0**-9)
    x = np.concatenate(
        [x, RNG.standard_normal(60) * 2.0 ** RNG.integers(-30, 18, 60), [65519, 65520, 1e30, -1e30, 1e-30]]
    ).astype(np.float32)
    whole = RNG.integers(-(2**63), 2**63, x.size) >> RNG.integers(0, 63, x.size)
    texts = [f"__float2{name}_r{mode}(x)" for mode in MODES] + [f"__ll2{name}_r{mode}(n)" for mode in MODES]
    lines = "\n".join(f"    out[{k} * {x.size} + i] = __{name}_as_ushort({text});" for k, text in enumerate(texts))
    text = f"""{HEADERS}__global__ void convert(unsigned short* out, const float* xs, const long long* ns) {{
    const int i = threadIdx.x;
    const float x = xs[i];
    const long long n = ns[i];
{lines}
    }}"""
    out = np.zeros((len(texts), x.size), np.uint16)
    simulator.launch(text, 1, x.size, (out, x, whole)).check()
    for k, mode in enumerate(MODES * 2):
        for i in range(x.size):
            exact = Fraction(float(x[i])) if k < 4 else Fraction(int(whole[i]))
            assert value(out[k, i], name) == rounded(exact, mode, name), (texts[k], float(exact))


@pytest.mark.parametrize("name", FORMATS)
def test_every_number_is_widened_exactly(name):
    bits = RNG.permutation(np.arange(65536))[:1024].astype(np.uint16)
    (got,) = computed([f"__{name}2float(x)"], name, bits, result="float")
    np.testing.assert_array_equal(got, [value(each, name) for each in bits])


@pytest.mark.parametrize("name", FORMATS)
def test_integers_of_numbers(name):
    x = numbers(name, 300)
    texts = [f"__{name}2int_r{mode}(x)" for mode in MODES] + ["(int)(unsigned char)(short)3", f"__{name}2short_rz(x)"]
    found = computed(texts, name, x, result="int")
    functions = (round, math.trunc, math.ceil, math.floor)
    for i, each in enumerate(x):
        exact = Fraction(value(each, name))
        for got, function in zip(found, functions, strict=False):
            assert got[i] == min(max(function(exact), -(2**31)), 2**31 - 1)
        assert found[5][i] == min(max(math.trunc(exact), -(2**15)), 2**15 - 1)


@pytest.mark.parametrize("name", FORMATS)
def test_comparisons_and_nan(name):
    make = f"__float2{name}"
    texts = [
        "__hlt(NAN_, ONE_)", "__hltu(NAN_, ONE_)", "NAN_ == NAN_", "NAN_ != NAN_", "ONE_ < TWO_", "__hne(NAN_, ONE_)",
        "__hneu(NAN_, ONE_)",
        "__hisnan(NAN_)", "__hisinf(-ONE_ / (ONE_ - ONE_))", "__heq(__hmin(NAN_, ONE_), ONE_)",
        "__hisnan(__hmax_nan(NAN_, ONE_))",
        "__hbgt2(T2(TWO_, TWO_), T2(ONE_, ONE_))", "(int)__heq2_mask(T2(TWO_, ONE_), T2(ONE_, ONE_))",
        "bool(ONE_) && !bool(-(ONE_ - ONE_))",
    ]  # fmt: skip
    names = {"NAN_": f"{make}(NAN)", "ONE_": f"{make}(1.0f)", "TWO_": f"{make}(2.0f)", "T2": f"{TYPES[name]}2"}
    for old, new in names.items():
        texts = [text.replace(old, new) for text in texts]
    found = computed(texts, name, np.zeros(1, np.uint16), result="int")
    assert [int(each[0]) for each in found] == [0, 1, 0, 1, 1, 0, 1, 1, -1, 1, 1, 1, -65536, 1]


@pytest.mark.parametrize("name", FORMATS)
def test_functions_are_near(name):
    x = np.array([each for each in numbers(name, 600) if 0.01 < value(each, name) < 4.5], np.uint16)
    pairs = {
        "hsqrt": math.sqrt, "hexp": math.exp, "hlog2": math.log2, "hsin": math.sin, "htanh": math.tanh,
        "hrcp": lambda v: 1 / v,
        "hrsqrt": lambda v: v**-0.5, "hexp10": lambda v: 10.0**v,
    }  # fmt: skip
    digits, _ = FORMATS[name]
    for got, function in zip(computed([f"{call}(x)" for call in pairs], name, x), pairs.values(), strict=True):
        exact = np.array([function(value(each, name)) for each in x])
        np.testing.assert_allclose([value(each, name) for each in got], exact, rtol=2.0**-digits, atol=1e-7)


def test_names_and_members():
    text = f"""{HEADERS}
    __global__ void names(float* out, half* x) {{
        __shared__ half2 s[4];
        s[threadIdx.x] = __floats2half2_rn(threadIdx.x, 2 * threadIdx.x);
        __syncthreads();
        const half2 v = s[3 - threadIdx.x], w = __lowhigh2highlow(v);
        half sum = v.x + w.x;
        sum += __float2half(0.5f);
        ++sum;
        out[threadIdx.x] = float(sum) + __low2float(v) + __half22float2(v).y;
        x[threadIdx.x] = __hmax(v.x, CUDART_ONE_FP16);
    }}
    """
    out, x = np.zeros(4, np.float32), np.zeros(4, np.float16)
    simulator.launch(text, 1, 4, (out, x)).check()
    assert out.tolist() == [3 * i + 1.5 + 3 * i for i in (3, 2, 1, 0)]
    assert x.tolist() == [3, 2, 1, 1]
