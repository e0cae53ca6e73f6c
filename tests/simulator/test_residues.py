"""Tests of ``split_float64``'s kernels on the simulator: residues, the operand scan, and reconstruction.

Only the product of residues, which needs ``wgmma``, is NumPy's. The rest is the CUDA C, and C has the model's bits.
"""

from __future__ import annotations

import ctypes
import itertools
import math

import numpy as np
import pytest

from tests import residues_in_numpy as model
from tests.conftest import slow_unless
from tests.simulator.test_split import laid_out
from tests.simulator.unchecked import execute
from tiledmm import simulator
from tiledmm.kernels.launches import Launch, Schedule
from tiledmm.kernels.operands import residues
from tiledmm.kernels.operands.moduli import DEFAULT_MODULI, MODULI
from tiledmm.kernels.operands.operand_scan import SCAN, SCAN_HEAD, SCAN_INIT
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import Product, resolve
from tiledmm.schedule.schedule import schedule
from tiledmm.selection.choose import select

#: Variant that multiplies operands that are not decomposed.
(OTHERWISE,) = find_variant("split_float64").operands.otherwise

#: Elements of C before the kernels run, which no product has.
UNWRITTEN = 1.2345678e-200


class Device:
    """A product by residues on the CPU: its memory, and all launches that a simulator can run."""

    def __init__(self, product: Product, planned: Schedule, x1: np.ndarray, x2: np.ndarray) -> None:
        self.planned, self.product = planned, product
        self.memory = {each.name: np.full(each.bytes, 255, np.uint8) for each in planned.scratch}
        self.scratch = {each.name: each for each in planned.scratch}
        self.memory[SCAN][:] = SCAN_INIT
        left, right = (x2, x1) if product.is_transposed else (x1, x2)
        self.c = np.full(
            (*(d.size for d in product.problem.batch), product.problem.m, product.problem.n), UNWRITTEN, product.c.dtype
        )
        self.addresses = {"A": left.ctypes.data, "B": right.ctypes.data, "C": self.c.ctypes.data}
        self.addresses |= {name: bits.ctypes.data for name, bits in self.memory.items()}
        for launch in planned.launches:
            if launch.spec.variant.name == "split_float64":
                self.multiply(launch)
            else:
                self.launch(launch)

    def launch(self, launch: Launch) -> None:
        begins = zip(launch.operands, launch.begins, strict=True)
        found = [self.addresses[SCAN] + begin for begin in launch.scan]
        pointers = [ctypes.c_void_p(self.addresses[name] + begin) for name, begin in begins]
        execute(launch.spec, launch.blocks, [*pointers, np.array([*launch.kernel_args, *found], np.int64)])

    def residues(self, launch: Launch, operand: int) -> np.ndarray:
        """Return residues (moduli, matrices, rows, k) as the launch's tensor map describes them."""
        described, memory = launch.maps[operand], self.memory[launch.operands[operand]]
        k, rows, matrices, planes, _ = described.sizes
        strides = (described.strides[2], described.strides[1], described.strides[0], 1)
        return np.lib.stride_tricks.as_strided(memory[launch.begins[operand] :], (planes, matrices, rows, k), strides)

    def multiply(self, launch: Launch) -> None:
        """Write C's residues in the kernel's order."""
        args = [int(each) for each in launch.kernel_args]
        m, n, batch, plane, pitch = args[0], args[1], args[10:13], args[28], args[29]
        left, right = self.residues(launch, 0), self.residues(launch, 1)
        to = self.memory["residues of C"]
        for number, at in enumerate(np.ndindex(*batch)):
            a, b = (int(np.dot(at, args[first : first + 3])) for first in (15, 20))
            found = model.multiply(left[:, a], right[:, b], launch.spec.config.moduli)
            padded = np.zeros((*found.shape[:2], math.ceil(n / 64) * 64), np.uint8)
            padded[..., :n] = found
            written = np.lib.stride_tricks.as_strided(to[number * m * pitch :], padded.shape, (plane, pitch, 1))
            written[...] = model.in_kernels_order(padded)

    def found(self, operand: int, rows: int) -> tuple[int, int, int, np.ndarray]:
        """Return the least number of near elements, whether all are exact, the least scale, and the exponents."""
        begin = self.planned.multiplying.scan[operand]
        words = self.memory[SCAN][begin : begin + SCAN_HEAD + 4 * rows].view(np.int32)
        return int(words[0]), int(words[1]), int(words[2]), words[3:]


def run(
    x1: np.ndarray, x2: np.ndarray, variant: str = "split_float64", tile: int | None = None, **keywords: int
) -> tuple[np.ndarray, Device]:
    """Compute a product; return C, and the memory afterwards."""
    product = resolve(describe(x1), describe(x2))
    choice = select(variant, tile, product, keywords or None)
    planned = schedule(choice.spec, choice.product.problem)
    device = Device(choice.product, planned, x1, x2)
    c = device.c.swapaxes(-1, -2) if choice.product.is_transposed else device.c
    return c.reshape(product.shape), device


LAYOUTS = ("NN", "NT", "TN", "TT", "GG")


@pytest.mark.parametrize("layout", [pytest.param(each, marks=slow_unless(each == "GG")) for each in LAYOUTS])
def test_products_of_integers_are_exact(layout: str) -> None:
    rng = np.random.default_rng(240)
    for m, n, k in ((1, 1, 1), (5, 36, 2), (33, 3, 63), (17, 70, 257), (2, 130, 1030)):
        left = rng.integers(-999, 1000, (m, k)).astype(np.float64)
        right = rng.integers(-999, 1000, (k, n)).astype(np.float64)
        left[: m // 2] *= 2.0**400
        right[:, ::3] *= 2.0**-700
        found, device = run(laid_out(left, layout[0]), laid_out(right, layout[1]))
        np.testing.assert_array_equal(found, left @ right)
        for operand in (0, 1):
            assert device.found(operand, 1)[1] != 0, "all are integers times powers of two"


@pytest.mark.parametrize(
    ("layout", "moduli"),
    [
        pytest.param(layout, moduli, marks=slow_unless((layout, moduli) == ("TN", 16)))
        for layout in LAYOUTS
        for moduli in (14, 15, 16)
    ],
)
def test_bits_are_those_of_the_model(layout: str, moduli: int) -> None:
    rng = np.random.default_rng(241)
    for m, n, k in ((18, 67, 300), (1, 200, 1025)):
        left, right = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        left *= np.exp2(rng.integers(-300, 300, (m, 1)).astype(float))
        x1, x2 = laid_out(left, layout[0]), laid_out(right, layout[1])
        found, device = run(x1, x2, moduli=moduli)
        np.testing.assert_array_equal(found, model.product(left, right, moduli))
        operands = (right.T, left) if device.product.is_transposed else (left, right.T)
        for operand, rows in enumerate(operands):
            expected = model.decompose(np.ascontiguousarray(rows), moduli)
            near, exact, scale, exponents = device.found(operand, len(rows))
            assert (near, exact != 0, scale) == (expected.near.min(), expected.exact.all(), expected.scales.min())
            np.testing.assert_array_equal(exponents, -expected.scales)
            residues = device.residues(device.planned.multiplying, operand)
            np.testing.assert_array_equal(residues[:, 0], model.residues_of(expected.integers, moduli))


@pytest.mark.parametrize("layout", [pytest.param(each, marks=slow_unless(each == "NN")) for each in LAYOUTS])
def test_complex_products(layout: str) -> None:
    """Check that complex products by three real ones give the model's bits."""
    rng = np.random.default_rng(249)
    for m, n, k in ((18, 67, 301), (1, 70, 40)):
        left, right = complex_normal(rng, m, k), complex_normal(rng, k, n)
        left *= np.exp2(rng.integers(-300, 300, (m, 1)).astype(float))
        found, device = run(laid_out(left, layout[0]), laid_out(right, layout[1]))
        np.testing.assert_array_equal(found, model.product(left, right))
        assert device.scratch["residues of C"].shape[0] == 3 * DEFAULT_MODULI
        x, y = (np.round(each * 9) for each in (complex_normal(rng, m, k), complex_normal(rng, k, n)))
        found, _ = run(laid_out(x, layout[0]), laid_out(y, layout[1]))
        np.testing.assert_array_equal(found, x @ y)
    with_inf, far = left.copy(), left * np.exp2(rng.uniform(-90, 90, left.shape))
    with_inf[0, 7] = complex(1, np.inf)
    for other in (with_inf, far):
        found, _ = run(laid_out(other, layout[0]), laid_out(right, layout[1]))
        np.testing.assert_array_equal(found, simulator.matmul(other, right, variant=OTHERWISE, tile=128))


def complex_normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.parametrize("rows", [16, *(pytest.param(each, marks=pytest.mark.slow) for each in (8, 4, 2))])
def test_any_number_of_contiguous_rows_per_block(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiledmm.kernels.operands.residues._ROWS", (rows,))
    rng = np.random.default_rng(254)
    for dtype, m, k in (("float64", 35, 1100), ("complex128", 17, 530)):
        left, right = (complex_normal(rng, *shape) for shape in ((m, k), (k, m + 1)))
        if dtype == "float64":
            left, right = left.real.copy(), right.real.copy()
        left *= np.exp2(rng.integers(-300, 300, (m, 1)).astype(float))
        found, device = run(laid_out(left, "T"), laid_out(right, "N"))
        np.testing.assert_array_equal(found, model.product(left, right))
        written = [each.spec for each in device.planned.launches if each.spec.variant is residues.DECOMPOSE_RESIDUES]
        assert [(each.config.bm, each.layout[0]) for each in written] == [(rows, "T")] * 2


def test_small_operands_have_fewer_rows_per_block() -> None:
    for columns, rows in ((16, 2), (1000, 2), (1056, 4), (4096, 8), (8192, 16)):
        product = resolve(describe(np.empty((8, 8))), describe(np.empty((8, columns))))
        planned = schedule(select("split_float64", None, product).spec, product.problem)
        _, of_b = [each for each in planned.launches if each.spec.variant is residues.DECOMPOSE_RESIDUES]
        assert of_b.spec.config.bm == rows


# ---- all of it on the simulator: split_float64_tensor_core ----


@pytest.mark.parametrize(
    ("layout", "tile"),
    [("GN", 64), *(pytest.param(*each, marks=pytest.mark.slow) for each in (("TT", 128), ("NN", 256)))],
)
def test_with_instructions_of_a_warp_bits_are_those_of_the_model(layout: str, tile: int) -> None:
    rng = np.random.default_rng(270)
    for m, n, k in ((tile + 1, 7, 130), (3, tile + 5, 97)):
        left, right = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        keywords = {"variant": "split_float64_tensor_core", "tile": tile}
        found, device = run(laid_out(left, layout[0]), laid_out(right, layout[1]), **keywords)
        np.testing.assert_array_equal(found, model.product(left, right))
        names = [launch.spec.variant.name for launch in device.planned.launches]
        assert names[2:] == ["split_float64_tensor_core", "reconstruct", OTHERWISE]


@pytest.mark.slow
def test_sums_that_are_reduced_on_the_way() -> None:
    """Check sums of residues of 255, which exceed 2^32 after 66,051 steps of k unless they are reduced in between."""
    for k in (66_049, 132_200):
        left, right = np.full((2, k), -1.0), np.full((k, 3), -1.0)
        left[1], right[:, 1] = np.arange(k) % 7 - 3, np.arange(k) % 5 - 2
        found, _ = run(left, right, "split_float64_tensor_core", 64)
        np.testing.assert_array_equal(found, left @ right)


@pytest.mark.slow
def test_batches_with_instructions_of_a_warp(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(271)
    for most in (1 << 30, 1):
        monkeypatch.setattr("tiledmm.kernels.operands.residues.MOST_RESIDUES_OF_C", most)
        left, right = complex_normal(rng, 2, 1, 3, 70, 50), complex_normal(rng, 2, 1, 50, 70)
        found, _ = run(left, right, "split_float64_tensor_core", 64)
        for at in np.ndindex(2, 2, 3):
            expected = model.product(left[at[0], 0, at[2]], right[at[1], 0])
            np.testing.assert_array_equal(found[at], expected)


@pytest.mark.parametrize("dtype", ["float64", pytest.param("complex128", marks=pytest.mark.slow)])
def test_all_checks_of_the_simulator(dtype: str) -> None:
    """Check for races, accesses out of bounds, and scratch memory that is read before it is written."""
    rng = np.random.default_rng(272)
    left, right = rng.standard_normal((20, 70)).astype(dtype), rng.standard_normal((70, 67)).astype(dtype)
    for a, decomposed in ((left, True), (left * np.exp2(rng.uniform(-99, 99, left.shape)), False)):
        found = simulator.matmul(a, right, variant="split_float64_tensor_core", tile=64)
        otherwise = {"variant": OTHERWISE, "tile": 64, "checks": False}
        expected = model.product(a, right) if decomposed else simulator.matmul(a, right, **otherwise)
        np.testing.assert_array_equal(found, expected)


# ---- split_float64: with NumPy's products ----


def test_batches_repeat_what_they_repeat() -> None:
    rng = np.random.default_rng(242)
    for first, second in (((3,), (3,)), ((2, 1, 3), (2, 2, 1)), ((), (4,)), ((3,), ())):
        left, right = rng.standard_normal((*first, 10, 50)), rng.standard_normal((*second, 50, 70))
        found, _ = run(left, right)
        for at in np.ndindex(found.shape[:-2]):
            a = np.broadcast_to(left, (*found.shape[:-2], 10, 50))[at]
            b = np.broadcast_to(right, (*found.shape[:-2], 50, 70))[at]
            np.testing.assert_array_equal(found[at], model.product(a, b))


def test_c_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(243)
    left, right = rng.standard_normal((2, 257, 20)), rng.standard_normal((20, 65))
    whole, _ = run(left, right, bm=128, cluster=1)
    monkeypatch.setattr("tiledmm.kernels.operands.residues.MOST_RESIDUES_OF_C", 1)
    found, device = run(left, right, bm=128, cluster=1)
    np.testing.assert_array_equal(found, whole)
    names = [launch.spec.variant.name for launch in device.planned.launches]
    assert names == ["decompose_residues"] * 2 + ["split_float64", "reconstruct"] * 3 + [OTHERWISE]
    assert device.scratch["residues of C"].shape == (DEFAULT_MODULI, 2, 128, 128)


def special_values(rng: np.random.Generator) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return operands for which residues are not accurate enough, by name."""
    a, b = rng.standard_normal((20, 64)), rng.standard_normal((64, 24))
    with_inf, with_nan, far = a.copy(), b.copy(), a * np.exp2(rng.uniform(-50, 50, a.shape))
    with_inf[3, 7], with_nan[5, 6] = -np.inf, np.nan
    return {
        "inf": (with_inf, b), "nan": (a, with_nan), "both": (with_inf, with_nan),
        "spread": (far, b * np.exp2(rng.uniform(-50, 50, b.shape))),
        "further": (a * np.exp2(rng.uniform(-500, 500, a.shape)), b * np.exp2(rng.uniform(-500, 500, b.shape))),
        "overflow": (a * 2.0**1000, b * 2.0**500), "nearly": (a * 2.0**500, b * 2.0**515),
        "one a row": (np.eye(20, 64), b),
        "graded": (a * np.exp2(-np.arange(64.0)), b * np.exp2(-np.arange(64.0))[:, None]),
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        *("inf", "spread", "graded"),
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("nan", "both", "further", "overflow", "nearly", "one a row")
        ),
    ],
)
def test_what_residues_cannot_represent_is_multiplied_as_it_is(name: str) -> None:
    left, right = special_values(np.random.default_rng(244))[name]
    found, device = run(left, right)
    assert not model.is_decomposed(left, right)
    np.testing.assert_array_equal(found, simulator.matmul(left, right, variant=OTHERWISE, tile=128, checks=False))
    assert device.memory["residues of C"].max() == 255


@pytest.mark.parametrize("layout", ["TT", *(pytest.param(each, marks=pytest.mark.slow) for each in ("NN", "GG"))])
def test_small_and_large_numbers(layout: str) -> None:
    rng = np.random.default_rng(245)
    a, b = rng.standard_normal((18, 70)), rng.standard_normal((70, 21))
    zeros = a.copy()
    zeros[4] = 0
    for name, left, right in (
        ("subnormal", a * 2.0**-1050, b), ("both subnormal", a * 2.0**-1060, b * 2.0**-1055),
        ("into subnormal", a * 2.0**-600, b * 2.0**-470), ("large", a * 2.0**1010, b * 2.0**-900),
        ("larger", a * 2.0**1020, b * 2.0**-1010), ("into large", a * 2.0**400, b * 2.0**450), ("zeros", zeros, b),
        ("all zeros", 0 * a, 0 * b),
    ):  # fmt: skip
        assert model.is_decomposed(left, right), name
        found, _ = run(laid_out(left, layout[0]), laid_out(right, layout[1]))
        np.testing.assert_array_equal(found, model.product(left, right), err_msg=name)
        if "zeros" in name:
            assert not np.signbit(found[found == 0]).any(), "sums start at +0"


def test_other_types_in_memory() -> None:
    rng = np.random.default_rng(246)
    left, right = rng.integers(-9, 9, (20, 70)), rng.standard_normal((70, 30)).astype("f4")
    product = resolve(describe(left), describe(right), dtype="float64")
    choice = select("split_float64", None, product)
    device = Device(choice.product, schedule(choice.spec, choice.product.problem), left, right)
    np.testing.assert_array_equal(device.c, model.product(left.astype("f8"), right.astype("f8")))


def test_exactly_one_kernel_writes_c() -> None:
    """Check that, of the two kernels that can write C, the one that the operand scan rules out writes nothing."""
    rng = np.random.default_rng(247)
    plain, far = rng.standard_normal((20, 64)), rng.standard_normal((20, 64)) * np.exp2(rng.uniform(-99, 99, (20, 64)))
    for left, taken in ((plain, "reconstruct"), (far, OTHERWISE)):
        right = np.ascontiguousarray(left.T)
        product = resolve(describe(left), describe(right))
        planned = schedule(select("split_float64", None, product).spec, product.problem)
        for leave_out in ("reconstruct", OTHERWISE):
            launches = [each for each in planned.launches if each.spec.variant.name != leave_out]
            device = Device(product, Schedule(tuple(launches), planned.scratch), left, right)
            assert (device.c == UNWRITTEN).all() == (leave_out == taken)


def test_residues_are_those_of_every_integer() -> None:
    """Check every modulus on integers of up to 58 bits, to which a row of K = 1 is scaled."""
    rng = np.random.default_rng(248)
    x = np.concatenate([rng.standard_normal(200), np.exp2(np.arange(-20.0, 20.0)), -np.exp2(np.arange(-20.0, 20.0))])[
        :, None
    ]
    _, device = run(x, np.ones((1, 3)))
    integers = model.decompose(x).integers
    residues = device.residues(device.planned.multiplying, 0)[:, 0]
    for modulus, found in zip(MODULI, residues, strict=False):
        assert [int(each) for each in found[:, 0]] == [int(each) % modulus for each in integers[:, 0]]


def test_launches_are_in_order() -> None:
    a, b = np.ones((4, 5, 6)), np.ones((6, 7))
    product = resolve(describe(a), describe(b))
    planned = schedule(select("split_float64", None, product).spec, product.problem)
    names = [launch.spec.variant.name for launch in planned.launches]
    assert names == ["decompose_residues", "decompose_residues", "split_float64", "reconstruct", OTHERWISE]
    assert [launch.kernel_args[-1] for launch in itertools.islice(planned.launches, 2)] == [1, 0], "the first overlaps"
    assert planned.multiplying.spec.variant.name == "split_float64"
