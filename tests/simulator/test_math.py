"""Tests of math functions: exact where CUDA rounds correctly, otherwise within the documented errors."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tiledmm import simulator

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)


def computed(expressions: list[str], result: str, *inputs: np.ndarray, header: str = "") -> list[np.ndarray]:
    """Compute each expression of x, y and z elementwise, as an array of a C type."""
    n = inputs[0].size
    types = {
        "f4": "float",
        "f8": "double",
        "i4": "int",
        "u4": "unsigned",
        "i8": "long long",
        "u8": "unsigned long long",
    }
    names = "xyz"[: len(inputs)]
    parameters = [f"const {types[each.dtype.str[1:]]}* {name}s" for name, each in zip(names, inputs, strict=True)]
    text = [header, f"__global__ void compute({result}* out, int n, {', '.join(parameters)}) {{"]
    text += ["    const int i = threadIdx.x + blockIdx.x * blockDim.x;", "    if (i >= n) return;"]
    text += [f"    const auto {name} = {name}s[i];" for name in names]
    text += [f"    out[{k} * n + i] = {expression};" for k, expression in enumerate(expressions)]
    dtype = next(code for code, name in types.items() if name == result)
    out = np.zeros((len(expressions), n), dtype)
    simulator.launch("\n".join([*text, "}"]), -(-n // 128), 128, (out, n, *inputs), name="compute").check()
    return list(out)


def doubles(n: int) -> np.ndarray:
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        3.0,
        5e-324,
        -5e-324,
        2.0**-1022,
        2.0**-1060,
        1.7976931348623157e308,
        -1.7e308,
        0.1,
    ]
    bits = RNG.integers(0, 2**64, n, dtype=np.uint64).view(np.float64)
    near = RNG.standard_normal(n) * 2.0 ** RNG.integers(-70, 70, n)
    few = RNG.integers(-9, 10, n) * 2.0 ** RNG.integers(-3, 4, n)
    return RNG.permutation(np.concatenate([special, bits[np.isfinite(bits)], near, few]))


def floats(n: int) -> np.ndarray:
    special = [0.0, -0.0, 1.0, -1.0, 3.0, 1e-45, -1e-45, 2.0**-126, 2.0**-140, 3.4028234663852886e38, -3.4e38, 0.1]
    bits = RNG.integers(0, 2**32, n, dtype=np.uint32).view(np.float32)
    near = RNG.standard_normal(n) * 2.0 ** RNG.integers(-30, 30, n)
    few = RNG.integers(-9, 10, n) * 2.0 ** RNG.integers(-3, 4, n)
    return RNG.permutation(np.concatenate([special, bits[np.isfinite(bits)], near, few])).astype(np.float32)


def rounded(exact: Fraction, mode: str, dtype: type) -> float:
    """Round an exact number to a type in mode n, z, u or d."""
    digits, least, most = (24, -149, 2.0**128) if dtype is np.float32 else (53, -1074, None)
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - digits - 1, least)
    while size >= Fraction(2) ** (exponent + digits):
        exponent += 1
    whole, rest = divmod(size, Fraction(2) ** exponent)
    half = Fraction(2) ** exponent / 2
    up = (mode == "n" and (rest > half or (rest == half and whole & 1))) or (
        rest and mode == ("u" if exact > 0 else "d")
    )
    scaled = Fraction(whole + bool(up)) * Fraction(2) ** exponent
    if scaled >= (Fraction(2) ** 1024 if most is None else most):  # too large
        largest = float(np.finfo(dtype).max)
        size_ = math.inf if mode == "n" or mode == ("u" if exact > 0 else "d") else largest
        return size_ if exact > 0 else -size_
    return float(scaled) if exact > 0 else -float(scaled)


def root(x: Fraction) -> Fraction:
    """Return a square root to 400 bits, exact or slightly too large."""
    scale = 4**1500
    found = math.isqrt(int(x * scale))
    return Fraction(found, 2**1500) + (0 if Fraction(found * found, scale) == x else Fraction(1, 2**1501))


OPERATIONS: dict[str, tuple[str, Callable[..., Fraction]]] = {
    "add": ("__{t}add_r{m}(x, y)", lambda x, y, z: x + y),
    "sub": ("__{t}sub_r{m}(x, y)", lambda x, y, z: x - y),
    "mul": ("__{t}mul_r{m}(x, y)", lambda x, y, z: x * y),
    "div": ("__{t}div_r{m}(x, y)", lambda x, y, z: x / y),
    "rcp": ("__{t}rcp_r{m}(x)", lambda x, y, z: 1 / x),
    "sqrt": ("__{t}sqrt_r{m}(x)", lambda x, y, z: root(x)),
    "fma": ("__{f}_r{m}(x, y, z)", lambda x, y, z: x * y + z),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directed_rounding_is_exact(dtype):
    make = floats if dtype is np.float32 else doubles
    x, y, z = make(60), make(60), make(60)
    n = min(x.size, y.size, z.size)
    x, y, z = x[:n].copy(), y[:n].copy(), z[:n].copy()
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        z[::3] = (-x[::3] * y[::3] * dtype(1 + 2**-22)).astype(dtype)  # sums that nearly cancel
    y[1::5] = -x[1::5]
    z[~np.isfinite(z)] = 1
    kind, fma = ("f", "fmaf") if dtype is np.float32 else ("d", "fma")
    texts = [text.format(t=kind, f=fma, m=mode) for text, _ in OPERATIONS.values() for mode in "nzud"]
    found = iter(computed(texts, "float" if dtype is np.float32 else "double", x, y, z))
    for name, (_, exact) in OPERATIONS.items():
        for mode in "nzud":
            got = next(found)
            for i in range(n):
                a, b, c = (Fraction(float(each[i])) for each in (x, y, z))
                if (name in ("div", "rcp") and (b if name == "div" else a) == 0) or (name == "sqrt" and a < 0):
                    continue
                expected = rounded(exact(a, b, c), mode, dtype)
                assert float(got[i]) == expected, (name, mode, x[i], y[i], z[i], got[i], expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("__fadd_rd(x, -x)", -0.0), ("__fadd_ru(x, -x)", 0.0), ("__fadd_rd(0.0f, 0.0f)", 0.0),
        ("__fadd_rd(0.0f, -0.0f)", -0.0),
        ("__fmaf_rd(x, x, -x * x)", -0.0), ("__dadd_rd(x, -x)", -0.0), ("__fma_rd(x, x, -double(x) * x)", -0.0),
        ("__fmul_rz(-0.0f, x)", -0.0), ("__fdiv_ru(x, 0.0f)", math.inf), ("__fsqrt_rd(-0.0f)", -0.0),
        ("__fadd_rz(INFINITY, x)", math.inf), ("__fmul_rz(1e38f, 1e38f)", 3.4028234663852886e38),
    ],
)  # fmt: skip
def test_zeros_and_infinities_keep_their_signs(expression, expected):
    (got,) = computed([expression], "double", np.array([1.5], np.float32))
    assert got[0] == expected
    assert math.copysign(1, got[0]) == math.copysign(1, expected)


WHOLE = {"n": np.rint, "z": np.trunc, "u": np.ceil, "d": np.floor}
INTEGERS = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}


@pytest.mark.parametrize("source", ["float", "double"])
@pytest.mark.parametrize("target", INTEGERS)
def test_conversions_to_integers_saturate(source, target):
    dtype, integer = {"float": np.float32, "double": np.float64}[source], INTEGERS[target]
    limits = np.iinfo(integer)
    with np.errstate(over="ignore"):
        edges = np.array(
            [0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e30, math.inf]
        ).astype(dtype)
        x = np.concatenate([edges, -edges, np.nextafter(edges, dtype(0)), np.array([math.nan], dtype)]).astype(dtype)
    c_type = {"int": "int", "uint": "unsigned", "ll": "long long", "ull": "unsigned long long"}[target]
    for mode, got in zip("nzud", computed([f"__{source}2{target}_r{m}(x)" for m in "nzud"], c_type, x), strict=True):
        for value, found in zip(x, got, strict=True):
            if math.isnan(value):  # the PTX ISA, cvt: zero from float to 32 bits, otherwise the highest bit
                expected = (
                    0
                    if dtype is np.float32 and limits.bits == 32
                    else (0 if limits.min else 2 ** (limits.bits - 1)) or limits.min
                )
            elif math.isinf(value):
                expected = limits.max if value > 0 else limits.min
            else:
                expected = min(max(int(WHOLE[mode](value)), limits.min), limits.max)
            assert int(found) == expected, (mode, value)


def test_conversions_from_integers_are_rounded_once():
    x = np.concatenate(
        [RNG.integers(-(2**63), 2**63, 40), 2**62 + RNG.integers(-600, 600, 40), np.array([2**63 - 1, -(2**63), 0, 3])]
    )
    u = x.view(np.uint64)
    for result, dtype in (("float", np.float32), ("double", np.float64)):
        for values, name in ((x, "ll"), (u, "ull"), (x.astype(np.int32), "int"), (u.astype(np.uint32), "uint")):
            if result == "double" and name in ("int", "uint"):
                continue
            for mode, got in zip(
                "nzud", computed([f"__{name}2{result}_r{m}(x)" for m in "nzud"], result, values), strict=True
            ):
                assert [float(v) for v in got] == [rounded(Fraction(int(v)), mode, dtype) for v in values], (name, mode)
    near = doubles(40)
    for mode, got in zip("nzud", computed([f"__double2float_r{m}(x)" for m in "nzud"], "float", near), strict=True):
        assert [float(v) for v in got] == [rounded(Fraction(float(v)), mode, np.float32) for v in near]


def ulps(got: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest error in units in the last place of the expected value."""
    close = expected.astype(got.dtype)
    wrong = np.abs(got.astype(np.longdouble) - expected.astype(np.longdouble))
    with np.errstate(invalid="ignore"):
        error = np.where(got == close, 0, wrong / np.spacing(np.abs(close)))
    return float(np.max(error))


# Name, errors that CUDA documents for float and double in ulp, and the arguments.
FUNCTIONS = [
    ("sin", 2, 2, (-100, 100)), ("cos", 2, 2, (-100, 100)), ("tan", 4, 2, (-1.5, 1.5)), ("exp", 2, 1, (-80, 80)),
    ("exp2", 2, 1, (-100, 100)),
    ("expm1", 1, 1, (-5, 30)), ("log", 1, 1, (1e-20, 1e20)), ("log2", 1, 1, (1e-3, 1e3)), ("log10", 2, 1, (1e-3, 1e3)),
    ("log1p", 1, 1, (-0.9, 50)), ("sqrt", 0, 0, (0, 1e6)), ("cbrt", 1, 1, (-1e4, 1e4)), ("asin", 2, 2, (-1, 1)),
    ("acos", 2, 2, (-1, 1)),
    ("atan", 2, 2, (-20, 20)), ("sinh", 3, 2, (-20, 20)), ("cosh", 2, 1, (-20, 20)), ("tanh", 2, 1, (-5, 5)),
    ("asinh", 3, 3, (-50, 50)),
    ("acosh", 4, 3, (1, 50)), ("atanh", 3, 2, (-0.99, 0.99)),
]  # fmt: skip
NUMPY = {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_are_as_accurate_as_cuda_says(dtype):
    names = [f"{name}{'f' if dtype is np.float32 else ''}" for name, *_ in FUNCTIONS]
    unit = RNG.random(400)
    arguments = [(low + (high - low) * unit).astype(dtype) for *_, (low, high) in FUNCTIONS]
    for (name, in_float, in_double, _), x, call in zip(FUNCTIONS, arguments, names, strict=True):
        (got,) = computed([f"{call}(x)"], "float" if dtype is np.float32 else "double", x)
        exact = NUMPY.get(name, getattr(np, name, None))(x.astype(np.longdouble))
        assert ulps(got, exact) <= max(in_float if dtype is np.float32 else in_double, 0.5001), name


def test_functions_that_c_does_not_have():
    x = np.concatenate([RNG.uniform(0.01, 0.99, 100), [0.5, 1e-10, 0.999999]])
    names = ["rsqrt(x)", "rcbrt(x)", "sinpi(100 * x)", "cospi(100 * x)", "normcdf(10 * x - 5)", "normcdfinv(x)",
    "erfinv(x)", "erfcinv(x)",
             "erfcx(x)", "erfcx(40 * x)", "cyl_bessel_i0(10 * x)", "exp10(x)", "norm3d(x, 2 * x, 2 * x)",
             "rhypot(3 * x, 4 * x)",
             "rnorm4d(x, x, x, x)", "erf(erfinv(x))", "tgamma(x + 3)", "j0(x)", "fdim(x, 0.5)"]  # fmt: skip
    normal = statistics.NormalDist()
    wide = x.astype(np.longdouble)
    pi = np.longdouble("3.14159265358979323846264338327950288")
    expected = {
        "rsqrt(x)": 1 / np.sqrt(wide), "rcbrt(x)": 1 / np.cbrt(wide),
        "sinpi(100 * x)": np.sin(pi * np.fmod(100 * x, 2).astype(np.longdouble)),
        "cospi(100 * x)": np.cos(pi * np.fmod(100 * x, 2).astype(np.longdouble)),
        "normcdf(10 * x - 5)": np.array([math.erfc((5 - 10 * v) / math.sqrt(2)) / 2 for v in x]),
        "normcdfinv(x)": np.array([normal.inv_cdf(v) for v in x]), "exp10(x)": 10**wide, "erf(erfinv(x))": x,
        "cyl_bessel_i0(10 * x)": np.i0(10 * x), "norm3d(x, 2 * x, 2 * x)": 3 * x, "rhypot(3 * x, 4 * x)": 0.2 / wide,
        "rnorm4d(x, x, x, x)": 0.5 / wide, "erfcx(x)": np.array([math.exp(v * v) * math.erfc(v) for v in x]),
        "tgamma(x + 3)": np.array([math.gamma(v + 3) for v in x]), "fdim(x, 0.5)": np.maximum(x - 0.5, 0),
    }  # fmt: skip
    for name, got in zip(names, computed(names, "double", x), strict=True):
        if name in expected:
            np.testing.assert_allclose(got, expected[name].astype(float), rtol=3e-14, atol=1e-15, err_msg=name)
    in_float = [
        name.replace("(", "f(", 1) for name in names if name.startswith(("sinpi", "norm", "erf", "cyl", "rs", "rc"))
    ]
    single = x.astype(np.float32)
    in_double = computed([name.replace("f(", "(", 1) for name in in_float], "double", single.astype(float))
    for name, got, exact in zip(in_float, computed(in_float, "float", single), in_double, strict=True):
        if "*" not in name and name.count("(") == 1:  # the argument is exact
            assert ulps(got, exact) <= 1, name
    (got,) = computed(["erff(erfinvf(x))"], "float", single)
    (exact,) = computed(["erf(double(erfinvf(x)))"], "double", single.astype(float))  # of the same argument
    assert ulps(got, exact) <= 1


def test_erfcinv_and_erfcx_far_out():
    x = np.array([1e-300, 1e-30, 1e-5, 0.3, 1.0, 1.7, 2 - 1e-12])
    inverse, back, scaled = computed(["erfcinv(x)", "erfc(erfcinv(x))", "erfcx(1e3 * x)"], "double", x)
    np.testing.assert_allclose(back, x, rtol=2e-13)
    assert inverse[4] == 0
    np.testing.assert_allclose(
        scaled[3:5], [1 / (math.sqrt(math.pi) * v) * (1 - 1 / (2 * v * v)) for v in (300, 1000)], rtol=1e-9
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("sinpi(1.0)", 0), ("sinpi(0.5)", 1), ("cospi(0.5)", 0), ("cospi(1e300)", 1), ("sinpi(-1.5)", 1),
        ("sqrt(4)", 2), ("pow(2, 10)", 1024),
        ("pow(2.0f, 3)", 8), ("std::sqrt(9.0f) + std::abs(-1)", 4), ("ilogb(0.0)", -(2**31)), ("ilogb(8.0f)", 3),
        ("fmin(NAN, 2.0)", 2),
        ("remainder(5.0, 3.0)", -1), ("scalbn(1.5, 4)", 24), ("ldexpf(1.5f, -1)", 0.75),
        ("__saturatef(NAN) + __saturatef(3.f)", 1),
        ("isnan(NAN) + 2 * isinf(-INFINITY) + 4 * isfinite(1.0f) + 8 * signbit(-0.0f)", 15),
        ("llround(2.5) + lrintf(2.5f)", 5),
        ("max(1u, -1)", 2**32 - 1), ("min(2ll, 3ll)", 2), ("max(1.5f, 2.5)", 2.5), ("min(-1, 1u)", 1),
        ("__fdividef(1.0f, 1e38f)", 0),
        ("(M_PI > 3) + (FLT_MAX > 1e38) + (INT_MAX == 2147483647) + (DBL_EPSILON < 1e-15)", 4),
        ("fmod(-7.0, 3.0)", -1), ("trunc(-1.5f)", -1),
        ("rint(2.5) + round(2.5)", 5), ("llabs(-3) + labs(-4l) + abs(-5ll)", 12), ("copysignf(3.0f, -0.0f)", -3),
        ("cbrt(27)", 3),
    ],
)  # fmt: skip
def test_values(expression, expected):
    (got,) = computed([expression], "double", np.zeros(1), header="#include <cmath>")
    assert got[0] == expected


def test_parts_of_numbers():
    text = """
    __global__ void parts(double* out) {
        int e, q;
        double whole, s, c;
        float f;
        out[0] = frexp(48.0, &e), out[1] = e, out[2] = modf(3.25, &whole), out[3] = whole, out[4] = modff(-2.5f, &f),
        out[5] = f;
        sincospi(0.25, &s, &c), out[6] = s - c, out[7] = remquo(7.0, 2.0, &q),
        out[8] = q, out[9] = nextafter(1.0, 2.0) - 1;
    }
    """
    out = np.zeros(10)
    simulator.launch(text, 1, 1, (out,)).check()
    assert out.tolist() == [0.75, 6, 0.25, 3, -0.5, -2, 0, -1, 4, 2.0**-52]


def elements(x: int, bits: int, signed: bool) -> list[int]:
    found = [x >> at & (1 << bits) - 1 for at in range(0, 32, bits)]
    return [v - (1 << bits) if signed and v >> (bits - 1) else v for v in found]


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


# Whether the elements are signed, and the result for elements of some bits.
PACKED: dict[str, tuple[bool, Callable[[int, int, int], int]]] = {
    "add": (True, lambda x, y, bits: x + y),
    "sub": (True, lambda x, y, bits: x - y),
    "addss": (True, lambda x, y, bits: clamp(x + y, -(1 << bits - 1), (1 << bits - 1) - 1)),
    "subus": (False, lambda x, y, bits: clamp(x - y, 0, (1 << bits) - 1)),
    "avgs": (True, lambda x, y, bits: (x + y + (x + y >= 0)) >> 1),
    "avgu": (False, lambda x, y, bits: (x + y + 1) >> 1),
    "maxs": (True, lambda x, y, bits: max(x, y)),
    "minu": (False, lambda x, y, bits: min(x, y)),
    "absdiffu": (False, lambda x, y, bits: abs(x - y)),
    "cmpgts": (True, lambda x, y, bits: -(x > y)),
    "setltu": (False, lambda x, y, bits: x < y),
    "cmpeq": (True, lambda x, y, bits: -(x == y)),
}


@pytest.mark.parametrize("parts", [2, 4])
def test_packed_integers(parts):
    x, y = RNG.integers(0, 2**32, (2, 200), dtype=np.uint64).astype(np.uint32)
    y[::4] = x[::4]
    bits = 32 // parts
    *found, sums = computed([f"__v{name}{parts}(x, y)" for name in (*PACKED, "sadu")], "unsigned", x, y)
    for i, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        pairs = list(zip(elements(a, bits, False), elements(b, bits, False), strict=True))
        assert sums[i] == sum(abs(p - q) for p, q in pairs)
        for got, (name, (signed, change)) in zip(found, PACKED.items(), strict=True):
            pairs = list(zip(elements(a, bits, signed), elements(b, bits, signed), strict=True))
            packed = sum((change(p, q, bits) & (1 << bits) - 1) << bits * at for at, (p, q) in enumerate(pairs))
            assert got[i] == packed, (name, hex(a), hex(b))


def test_integers_of_a_register():
    x, y = RNG.integers(0, 2**32, (2, 50), dtype=np.uint64).astype(np.uint32)
    calls = [
        "__umul24(x, y)", "__usad(x, y, 5)", "__uhadd(x, y)", "__urhadd(x, y)", "__funnelshift_lc(x, y, 40)",
        "__funnelshift_rc(x, y, 7)", "__brevll(x) >> 32", "__dp2a_lo(x, y, 1u)",
    ]  # fmt: skip
    found = computed(calls, "unsigned long long", x, y)
    for i, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        reverse = int(f"{a:032b}"[::-1], 2)
        dot = (a & 0xFFFF) * (b & 255) + (a >> 16) * (b >> 8 & 255) + 1
        exact = [
            (a & 0xFFFFFF) * (b & 0xFFFFFF),
            abs(a - b) + 5,
            (a + b) >> 1,
            (a + b + 1) >> 1,
            a,
            (b << 32 | a) >> 7,
            reverse,
            dot,
        ]
        assert [int(each[i]) for each in found] == [v & 0xFFFFFFFF for v in exact]
