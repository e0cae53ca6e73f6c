"""Tests of ``split`` on the simulator: limbs whose products add up to the product, and the operand scan."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.conftest import slow_unless
from tests.simulator.unchecked import execute
from tests.strategies import Layout, lay_out, random_matrix, small_integers
from tiledmm.elements import ELEMENTS, SCHEMES
from tiledmm.kernels.launches import Launch, Schedule
from tiledmm.kernels.operands.operand_scan import SCAN, SCAN_HEAD, SCAN_INIT
from tiledmm.kernels.tensor_maps import TensorMap
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import Product, resolve
from tiledmm.schedule.schedule import schedule
from tiledmm.selection.choose import select

NEVER = -(1 << 30)
OF_TWO_LIMBS = [scheme.name for scheme in SCHEMES.values() if scheme.limbs == 2]


def cases(schemes: Sequence[str], layouts: Sequence[str]) -> list[Any]:
    """Return all types, schemes and layouts as parameters; three of four are slow."""
    return [
        pytest.param(dtype, scheme, layout, marks=slow_unless((i + j + k) % 4 == 0))
        for i, dtype in enumerate(("float32", "complex64"))
        for j, scheme in enumerate(schemes)
        for k, layout in enumerate(layouts)
    ]


def laid_out(x: np.ndarray, letter: str) -> np.ndarray:
    """Copy values to contiguous rows (N), contiguous columns (T), or neither, at any offset (G)."""
    first, last = x.ndim - 2, x.ndim - 1
    outer = tuple(range(first))
    layout = {
        "N": Layout((*outer, first, last), (1,) * x.ndim, (0,) * x.ndim),
        "T": Layout((*outer, last, first), (1,) * x.ndim, (0,) * x.ndim),
        "G": Layout((*outer, first, last), (1,) * first + (-1, 2), (0,) * first + (1, 1)),
    }[letter]
    return lay_out(np, x, layout)[0]


class Device:
    """The scratch memory of a product on the CPU, after its operands were decomposed."""

    def __init__(self, product: Product, planned: Schedule, x1: np.ndarray, x2: np.ndarray) -> None:
        self.memory = {each.name: np.full(each.bytes, 255, np.uint8) for each in planned.scratch}
        self.memory[SCAN][:] = SCAN_INIT
        left, right = (x2, x1) if product.is_transposed else (x1, x2)
        self.addresses = {"A": left.ctypes.data, "B": right.ctypes.data}
        self.addresses |= {name: bits.ctypes.data for name, bits in self.memory.items()}
        for each in itertools.takewhile(lambda each: each is not planned.multiplying, planned.launches):
            self.launch(each)

    def launch(self, launch: Launch) -> None:
        spec = launch.spec
        assert spec.variant.name in ("pack", "decompose")
        begins = zip(launch.operands, launch.begins, strict=True)
        found = [self.addresses[SCAN] + begin for begin in launch.scan]
        pointers = [ctypes.c_void_p(self.addresses[name] + begin) for name, begin in begins]
        execute(spec, launch.blocks, [*pointers, np.array([*launch.kernel_args, *found], np.int64)])

    def limbs(self, name: str, described: TensorMap, piece: Any) -> np.ndarray:
        """Return (limbs, matrices, rows, contiguous elements) as the tensor map describes them, in float64."""
        neighbours, lines, matrices, count, _ = described.sizes
        strides = (described.strides[2], described.strides[1], described.strides[0], described.itemsize)
        words = self.memory[name].view(piece.dtype)
        found = np.lib.stride_tricks.as_strided(words, (count, matrices, lines, neighbours), strides)
        if piece.itemsize == 4:
            assert not (np.ascontiguousarray(found).view(np.uint32) & 0x1FFF).any(), "bits that tensor cores ignore"
        return found.astype("f8")

    def found(self, begin: int, count: int) -> tuple[int, int, int, np.ndarray]:
        """Return the number of usual elements, whether all are short (2: and alike), the least scale, the exponents."""
        words = self.memory[SCAN][begin : begin + SCAN_HEAD + 4 * count].view(np.int32)
        return int(words[0]), min(int(words[1]), 2), int(words[2]), words[3:]


def multiplied(planned: Schedule, product: Product, device: Device) -> np.ndarray:
    """Compute C, with its batch, as ``split_float32`` does, in real numbers or pairs of real columns."""
    launch = planned.multiplying
    spec, problem = launch.spec, product.problem
    parts = product.compute.components
    kept = spec.products
    sizes = [dimension.size for dimension in problem.batch]
    c = np.zeros((math.prod(sizes), problem.m, problem.n * parts))
    operands, exponents = [], []
    for i, (name, rows) in enumerate((("limbs of A", problem.m), ("limbs of B", problem.n))):
        limbs = device.limbs(name, launch.maps[i], spec.a)
        operands.append(limbs.swapaxes(2, 3) if spec.layout[i] == "T" else limbs)
        exponents.append(device.found(launch.scan[i], limbs.shape[1] * rows)[3].reshape(-1, rows))
    words = launch.kernel_args
    strides = words[15:18], words[20:23]  # of A's and B's batches, in matrices
    for number, at in enumerate(np.ndindex(*[1] * (3 - len(sizes)), *sizes)):
        a, b = (int(np.dot(at, each)) for each in strides)
        for i in range(spec.limbs):
            for j in range(spec.limbs):
                if kept == spec.limbs**2 or i + j < spec.limbs:
                    c[number] += operands[0][i, a] @ operands[1][j, b]
        scales = exponents[0][a][:, None] + np.repeat(exponents[1][b], parts)[None]
        c[number] = np.ldexp(c[number], scales)
    return c.view("c16") if parts == 2 else c


def split(x1: np.ndarray, x2: np.ndarray, scheme: str = "fp16x3") -> tuple[Product, Schedule, Device]:
    product = resolve(describe(x1), describe(x2))
    choice = select("split_float32", None, product, {"scheme": scheme})
    planned = schedule(choice.spec, choice.product.problem)
    return choice.product, planned, Device(choice.product, planned, x1, x2)


def reals(x: np.ndarray) -> np.ndarray:
    """View complex numbers as twice as many real ones along the last axis."""
    return np.ascontiguousarray(x).view(x.real.dtype)


def first_limbs(rows: np.ndarray, scheme: str) -> np.ndarray:
    """Return the first limbs of scaled numbers."""
    if scheme == "fp16x3":
        return rows.astype("f2").astype("f8")
    bits = rows.astype("f4").view("u4") + np.uint32(1 << 12) & np.uint32(0xFFFFE000)
    return bits.view("f4").astype("f8")


def expected_of(rows: np.ndarray, scheme: str = "fp16x3") -> tuple[int, bool, int, np.ndarray]:
    """Return the expected operand scan of rows of real numbers, for two limbs of 11 bits."""
    finite = np.isfinite(rows).all(axis=1)
    long = (rows.view(np.uint32) & 0x7FF) != 0
    rows = np.where(finite[:, None], rows, np.float32(1))
    largest = abs(rows).max(axis=1)
    _, exponents = np.frexp(largest)
    scales = np.where(largest > 0, 15 - exponents, 0)
    near = abs(rows) >= np.ldexp(1.0, np.maximum(exponents - 8, -126))[:, None]
    usual = np.where(largest > 0, (near & long).sum(axis=1), rows.shape[1])
    usual = np.where(finite, usual, NEVER)
    scaled = np.ldexp(rows.astype("f8"), scales[:, None])
    large = abs(scaled[scaled != 0]) >= 2.0**-24  # float16's least
    short = bool(finite.all() and (first_limbs(scaled, scheme) == scaled).all() and large.all())
    alike = (abs(scaled[scaled != 0]) >= 2.0**10).all()
    return int(usual.min()), (1 + alike) * short, int(scales[largest > 0].min(initial=0x7F7F7F7F)), -scales


@pytest.mark.parametrize(("dtype", "scheme", "layout"), cases(OF_TWO_LIMBS, ("NN", "NT", "TN", "TT", "GG")))
def test_products_of_limbs_are_the_product(dtype: str, scheme: str, layout: str) -> None:
    rng = np.random.default_rng(130)
    for m, n, k in ((5, 36, 256), (33, 3, 300), (1, 17, 2049)):
        left, right = small_integers(rng, (m, k), dtype), small_integers(rng, (k, n), dtype)
        left[: m // 2] *= np.float32(2.0**40)
        right[:, ::3] *= np.float32(2.0**-70)
        x1, x2 = laid_out(left, layout[0]), laid_out(right, layout[1])
        product, planned, device = split(x1, x2, scheme)
        c = multiplied(planned, product, device)
        expected = x1.astype("D") @ x2.astype("D")
        np.testing.assert_array_equal(c[0].T if product.is_transposed else c[0], expected)
        for name in ("limbs of A", "limbs of B"):
            padding = device.memory[name].view(SCHEMES[scheme].limb.dtype)
            assert not np.isnan(padding[: len(padding) // 2]).all(), "something was written"


@pytest.mark.parametrize(
    ("dtype", "scheme", "layout"), cases(("fp16x3", "bf16x6", "tf32x3"), ("NN", "NT", "TN", "TT", "GG"))
)
def test_limbs_are_accurate_and_what_is_found_is_right(dtype: str, scheme: str, layout: str) -> None:
    rng = np.random.default_rng(131)
    left, right = random_matrix(rng, (2, 3, 20, 302), dtype), random_matrix(rng, (3, 302, 21), dtype)
    left[:, 1] *= np.float32(1e-4)
    right[2] *= np.float32(1e12)
    x1, x2 = laid_out(left, layout[0]), laid_out(right, layout[1])
    product, planned, device = split(x1, x2, scheme)
    limbs = SCHEMES[scheme].limbs
    assert not product.is_transposed
    found = multiplied(planned, product, device).reshape(2, 3, 20, 21)
    size = abs(left).astype("f8") @ abs(right).astype("f8")
    assert (abs(found - left.astype("D") @ right.astype("D")) <= 2.0 ** (-20 if limbs == 2 else -23) * size).all()
    for operand, rows in enumerate((left.reshape(-1, 302), right.swapaxes(1, 2).reshape(-1, 302))):
        usual, short, scale, exponents = device.found(planned.multiplying.scan[operand], len(rows))
        expected = expected_of(reals(rows))
        assert usual == (expected[0] if limbs == 2 else rows.shape[1] * ELEMENTS[dtype].components)
        assert (short, scale) == (False, expected[2])
        np.testing.assert_array_equal(exponents, expected[3])


@pytest.mark.parametrize(("dtype", "scheme", "layout"), cases(OF_TWO_LIMBS, ("NN", "TT", "GG")))
def test_what_is_found_of_awkward_data(dtype: str, scheme: str, layout: str) -> None:
    rng = np.random.default_rng(132)
    plain = random_matrix(rng, (12, 270), dtype)
    kinds = {name: plain.copy() for name in ("zeros", "one inf", "one nan", "spread", "half", "subnormal")}
    kinds["short"] = small_integers(rng, (12, 270), dtype, bound=2000)
    for far in (38, 39, 40, 60):  # float16's least is 2^-38 to 2^-39 of a row's largest
        kinds[f"2^-{far}"] = np.ones_like(plain)
        kinds[f"2^-{far}"].real[:, 5] = 2.0**-far
    kinds["zeros"][5] = 0
    kinds["one inf"][3, 7] = np.inf if dtype == "float32" else complex(1, -np.inf)
    kinds["one nan"][3, 7] = np.nan if dtype == "float32" else complex(np.nan, 1)
    kinds["spread"] *= np.exp2(rng.uniform(-30, 30, plain.shape)).astype("f4")
    kinds["half"].real[:, ::2] = 0
    kinds["subnormal"] = (plain * np.float32(2.0**-120)) * np.float32(2.0**-25)
    for name, left in kinds.items():
        right = kinds["short" if name == "spread" else name].T.copy()
        _, planned, device = split(laid_out(left, layout[0]), laid_out(right, layout[1]), scheme)
        for operand, rows in enumerate((left, np.ascontiguousarray(right.T))):
            usual, short, scale, exponents = device.found(planned.multiplying.scan[operand], len(rows))
            expected = expected_of(reals(rows), scheme)
            assert usual == expected[0], name
            finite = np.isfinite(rows).all(axis=1)
            assert short == expected[1], name
            assert scale == expected[2] or not finite.all(), name
            np.testing.assert_array_equal(exponents[finite], expected[3][finite], err_msg=name)
