"""Tests of float64 by residues: the scheme's bound and accuracy in NumPy, and its launches. No GPU is needed."""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tiledmm
from tests import residues_in_numpy as model
from tests.kernels.operands.test_limbs import matrix
from tiledmm.codegen.rendering import render
from tiledmm.errors import ConfigError, ShapeError, UnsupportedTypeError
from tiledmm.kernels.launches import Schedule
from tiledmm.kernels.operands import residues as parts_of_c
from tiledmm.kernels.operands.moduli import (
    FEWEST_MODULI,
    MODULI,
    MOST_MODULI,
    modulus_product,
    norm_limit,
    pairs,
    powers_of_256,
    weights,
    words_of,
)
from tiledmm.kernels.operands.operand_scan import SCAN
from tiledmm.kernels.variants import kernel_spec
from tiledmm.problem.arrays import describe
from tiledmm.problem.keywords import AUTO, KernelKeywords
from tiledmm.problem.product import resolve
from tiledmm.schedule.schedule import fallbacks, required_kernels, schedule
from tiledmm.selection.choose import select, with_scheme
from tiledmm.selection.model import H100, H100_IEEE, Model
from tiledmm.tuning.calibrate import kernels_of

COUNTS = range(FEWEST_MODULI, MOST_MODULI + 1)

# ---- number theory ----


def test_moduli_are_the_largest_that_are_pairwise_coprime() -> None:
    assert all(math.gcd(x, y) == 1 for x, y in itertools.combinations(MODULI, 2))
    found: list[int] = []
    for candidate in range(256, 1, -1):
        if len(found) < len(MODULI) and all(math.gcd(candidate, each) == 1 for each in found):
            found.append(candidate)
    assert tuple(found) == MODULI


@pytest.mark.parametrize("count", COUNTS)
def test_weights_are_one_modulo_their_own_modulus(count: int) -> None:
    for own, weight in zip(MODULI, weights(count), strict=False):
        assert [weight % modulus for modulus in MODULI[:count]] == [int(modulus == own) for modulus in MODULI[:count]]
        assert 0 < weight < modulus_product(count) < 1 << 127
        assert sum(word << 32 * i for i, word in enumerate(words_of(weight))) == weight


@pytest.mark.parametrize("count", COUNTS)
def test_factors_and_cofactors_are_those_of_the_weights(count: int) -> None:
    whole, found = modulus_product(count), []
    for i, (factors, cofactor) in enumerate(pairs(count)):
        product = math.prod(MODULI[2 * i : min(2 * i + 2, count)])
        first, second = factors & 0xFFFF, factors >> 16
        assert cofactor * product == whole and first < product and second < product
        assert 255 * (first + second) < product << 9, "reconstruct.cu.j2 subtracts terms from this"
        found += [first * cofactor, second * cofactor]
    assert found[:count] == list(weights(count)) and not any(found[count:])
    largest = sum((0xFF << 1) + (1 << 10) for _ in pairs(count))  # a term of the imaginary part, as a multiple of P
    assert largest < 1 << 14, "the sum of all terms times cofactors is less than 2^14 * M"


def test_bytes_times_powers_of_256_are_small_sums() -> None:
    for modulus in MODULI:
        low, high = powers_of_256(modulus)
        powers = [*low.to_bytes(4, "little"), *high.to_bytes(4, "little")]
        assert powers == [pow(256, i, modulus) for i in range(8)]
        assert 255 * sum(powers) + modulus < 1 << 24, "the quotient by a rounded reciprocal is exact below this"


def test_the_worked_example() -> None:
    """Check the example in docs/rungs/split_float64.md, with moduli 7, 8 and 9."""
    a, b = np.array([[17, -5]]), np.array([[3], [12]])
    (whole,) = (a @ b)[0]
    residues = [int((a % m @ (b % m))[0, 0]) % m for m in (7, 8, 9)]
    assert residues == [5, 7, 0]
    weight = {7: 288, 8: 441, 9: 280}
    assert all(w % n == (m == n) for m, w in weight.items() for n in weight)
    total = sum(weight[m] * r for m, r in zip((7, 8, 9), residues, strict=True))
    assert total == 4527 and total - 9 * 504 == whole == -9


@pytest.mark.parametrize("count", COUNTS)
def test_no_product_passes_the_bound(count: int) -> None:
    """Check the bound on the largest possible product: a row of the largest norm times itself."""
    for k in (1, 2, 3, 1000, 66_049):
        for below in (1.0, 1 - 2.0**-30):
            row = np.full((1, k), below)
            found = model.decompose(row, count)
            total = sum(int(x) ** 2 for x in found.integers[0].tolist())
            assert modulus_product(count) // 16 < total < modulus_product(count) // 2
            assert total <= norm_limit(count) * (1 + 2.0**-20)
            assert model.product(row, row.T, count)[0, 0] == pytest.approx(k * below**2, rel=2.0**-52)


@pytest.mark.parametrize("count", [14, 15, 16])
def test_the_bound_leaves_room_for_rounding_and_little_more(count: int) -> None:
    """Check that the bound allows for rounding of elements and of norms, and for little more."""
    half, longest = modulus_product(count) / 2, 2**29
    norm = math.sqrt(norm_limit(count) * (1 + longest * 2.0**-53)) + math.sqrt(longest) / 2
    assert 0.999 * half < norm**2 < half


def test_reconstruction_is_exact_up_to_the_bound() -> None:
    for count in COUNTS:
        whole = modulus_product(count)
        for x in (0, 1, -1, whole // 2 - 1, -(whole // 2) + 1, 2**53 + 1, -(2**100) - 1):
            residues = np.array([[x % modulus] for modulus in MODULI[:count]], np.uint8)
            assert model.integers_of(residues).tolist() == [x]


# ---- accuracy ----


def fma_chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute sequential FMAs with Dekker's splitting, each rounded once (except for double rounding)."""

    def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shifted = 134217729.0 * x
        high = shifted - (shifted - x)
        return high, x - high

    sums = np.zeros((a.shape[0], b.shape[1]))
    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    for k in range(a.shape[1]):
        rounded = a[:, k, None] * b[k]
        error = a_high[:, k, None] * b_high[k] - rounded + a_high[:, k, None] * b_low[k] + a_low[:, k, None] * b_high[k]
        error = error + a_low[:, k, None] * b_low[k]
        total = sums + rounded
        other = total - sums
        sums = total + ((sums - (total - other)) + (rounded - other) + error)
    return sums


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute exact products as fractions, from Python's integers and a power of two per row of A and column of B."""

    def whole(rows: np.ndarray) -> list[tuple[list[int], int]]:
        found = []
        for parts, exponents in zip(*np.frexp(rows), strict=True):
            least = int(exponents[parts != 0].min(initial=0))
            pairs = zip(np.ldexp(parts, 53).astype(np.int64).tolist(), (exponents - least).tolist(), strict=True)
            found.append(([x << e if x else 0 for x, e in pairs], least - 53))
        return found

    found = np.empty((a.shape[0], b.shape[1]), object)
    for i, (row, of_row) in enumerate(whole(a)):
        for j, (column, of_column) in enumerate(whole(b.T)):
            found[i, j] = sum(map(operator.mul, row, column)) * Fraction(2) ** (of_row + of_column)
    return found


def errors(c: np.ndarray, a: np.ndarray, b: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Return ||C - R|| / ||R|| in the Frobenius norm, and the largest |C - R| / (|A||B|) of any element."""
    apart = np.array([float(Fraction(x) - y) for x, y in zip(c.ravel().tolist(), right.ravel(), strict=True)])
    sizes = (abs(a) @ abs(b)).ravel()
    norm = float(np.linalg.norm(right.astype(np.float64)))
    return float(np.linalg.norm(apart)) / norm, float((abs(apart) / np.where(sizes == 0, 1, sizes)).max())


def _spread(rng: np.random.Generator, shape: tuple[int, int], exponents: float) -> np.ndarray:
    return rng.standard_normal(shape) * np.exp2(rng.uniform(-exponents, exponents, shape))


def _graded(k: int, bits: float) -> np.ndarray:
    return np.exp2(-bits * np.arange(k) / k)


def data(kind: str, rng: np.random.Generator, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return operands of a kind."""
    if kind == "uniform":
        return rng.random((m, k)), rng.random((k, n))
    if kind.startswith("spread"):
        bits = float(kind.split()[1])
        return _spread(rng, (m, k), bits), _spread(rng, (k, n), bits)
    if kind == "hilbert":
        i, j, step = np.arange(m)[:, None], np.arange(n), np.arange(k)
        return 1.0 / (i + step + 1), 1.0 / (step[:, None] + j + 1)
    if kind == "integers":
        a, b = (rng.integers(-(2**53), 2**53, shape) for shape in ((m, k), (k, n)))
        return a.astype(np.float64), b.astype(np.float64)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    if kind.startswith("graded"):
        falls = _graded(k, float(kind.split()[1]))
        return a * falls, b * falls[:, None]
    if kind == "cancelling":
        half = (k + 1) // 2
        near = -a[:, : k - half] * (1 + 1e-3 * rng.standard_normal((m, k - half)))
        return np.concatenate([a[:, :half], near], axis=1), np.concatenate([b[:half], b[: k - half]])
    if kind == "scaled apart":
        return a * np.exp2(rng.integers(-200, 200, (m, 1)) * 1.0), b * np.exp2(rng.integers(-200, 200, (1, n)) * 1.0)
    if kind == "half zero":
        return np.maximum(a, 0), b
    if kind == "lognormal":
        return np.exp(a), np.exp(b)
    assert kind == "normal"
    return a, b


KINDS = (
    "normal", "uniform", "spread 3", "spread 50", "spread 500", "graded 4", "graded 40", "cancelling", "hilbert",
    "integers", "scaled apart", "half zero", "lognormal",
)  # fmt: skip

#: Kinds of data for which residues are accurate enough from this K on; others use float64 multiply-adds.
DECOMPOSED = {"normal": 16, "uniform": 16, "cancelling": 64, "integers": 16, "scaled apart": 16, "graded 4": 256}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_decomposed_keeps_the_promise(kind: str) -> None:
    """Check errors against exact sums: at most 1.05 (norm) and 1.25 (worst element) times those of an FMA chain."""
    for k in (1, 2, 7, 16, 64, 256, 1000):
        check_the_promise(kind, k)


def check_the_promise(kind: str, k: int) -> None:
    a, b = data(kind, np.random.default_rng(250), 12, 14, k)
    taken = model.is_decomposed(a, b)
    assert taken or k < DECOMPOSED.get(kind, k + 1)
    if kind in ("spread 50", "spread 500", "graded 40"):
        assert not taken or k == 1
    if k == 1:
        np.testing.assert_array_equal(model.product(a, b), a * b)
    elif taken:
        right = exact(a, b)
        norm, worst = errors(model.product(a, b), a, b, right)
        of_norm, of_worst = errors(fma_chain(a, b), a, b, right)
        assert norm <= 1.05 * of_norm and worst <= 1.25 * of_worst


def test_long_sums_keep_the_promise() -> None:
    for kind, k in (("normal", 16384), ("uniform", 4096), ("cancelling", 4096)):
        a, b = data(kind, np.random.default_rng(251), 3, 4, k)
        assert model.is_decomposed(a, b)
        right = exact(a, b)
        norm, worst = errors(model.product(a, b), a, b, right)
        of_norm, of_worst = errors(fma_chain(a, b), a, b, right)
        assert norm <= 0.5 * of_norm and worst <= 0.5 * of_worst


@pytest.mark.parametrize("k", [1, 16, 256])
@pytest.mark.parametrize("kind", ["normal", "uniform", "cancelling", "integers"])
def test_complex_products_keep_the_promise(kind: str, k: int) -> None:
    """Check errors of complex products, of both parts as one matrix, against chains of 2K real multiply-adds."""
    rng = np.random.default_rng(253)
    (ar, br), (ai, bi) = (data(kind, rng, 9, 10, k) for _ in range(2))
    a, b = ar + 1j * ai, br + 1j * bi
    if not model.is_decomposed(a, b):
        assert k == 16 and kind == "cancelling"
        return
    pairs = [(np.hstack([ar, -ai]), np.vstack([br, bi])), (np.hstack([ar, ai]), np.vstack([bi, br]))]
    c, found = model.product(a, b), []
    for i, (x, y) in enumerate(pairs):
        truth = exact(x, y)
        found.append([errors(each, x, y, truth) for each in ((c.real, c.imag)[i], fma_chain(x, y))])
    for which, factor in enumerate((1.05, 1.25)):
        ours, chains = (max(part[who][which] for part in found) for who in (0, 1))
        assert ours <= factor * chains


def test_a_rounded_product_is_the_nearest_of_what_was_not_rounded() -> None:
    rng = np.random.default_rng(252)
    a, b = rng.integers(-(2**20), 2**20, (9, 50)) * 2.0**-30, rng.integers(-(2**25), 2**25, (50, 8)) * 2.0**300
    assert model.decompose(a).exact.all() and model.decompose(np.ascontiguousarray(b.T)).exact.all()
    nearest = [[float(x) for x in row] for row in exact(a, b)]
    np.testing.assert_array_equal(model.product(a, b), nearest)


# ---- what is launched ----


def planned(a: Any, b: Any, tile: int | None = None, **keywords: Any) -> Schedule:
    choice = select("split_float64", tile, resolve(describe(a), describe(b)), keywords or None)
    return schedule(choice.spec, choice.product.problem)


def float64(rows: int, cols: int, letter: str = "N", batch: tuple[int, ...] = ()) -> np.ndarray:
    return matrix(rows, cols, letter, batch, "float64")


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "GG"])
def test_residues_are_k_major_in_any_layout(layout: str) -> None:
    for batch in ((), (3,), (2, 3)):
        plan = planned(float64(200, 300, layout[0], batch), float64(300, 140, layout[1]), tile=128)
        of_a, of_b, scan, of_c = plan.scratch
        padded = 304  # K, rounded up to whole chunks of 16 bytes
        shapes = (15, math.prod(batch), 200, padded), (15, 1, 140, padded)
        assert (of_a.shape, of_b.shape) == shapes, "one B, once"
        assert (of_a.pitch, of_b.pitch, of_c.pitch) == (384, 384, 256)
        assert of_c.shape == (15, math.prod(batch), 200, 192) and scan.name == SCAN
        first, second, multiplying, reconstructing, otherwise = plan.launches
        assert [each.spec.condition for each in plan.launches] == [
            "scan", "scan", "if decomposed", "if decomposed", "unless decomposed",
        ]  # fmt: skip
        assert first.spec.layout[0] == layout[0]
        assert second.spec.layout[0] == {"N": "T", "T": "N", "G": "G"}[layout[1]]
        assert multiplying.spec.layout == "NT"
        assert [each.sizes for each in multiplying.maps] == [(300, 200, math.prod(batch), 15, 1), (300, 140, 1, 15, 1)]
        assert multiplying.blocks == 15 * math.prod(batch) * 2 * 2 == multiplying.kernel_args[5]
        assert (reconstructing.operands, otherwise.operands) == (("residues of C", "C"), ("A", "B", "C"))
        assert first.scan == (0, 0) and multiplying.scan == reconstructing.scan == otherwise.scan == (0, second.scan[0])


def test_workspace_of_c_is_bounded() -> None:
    """Check that rows of C are computed in parts at 16384 x 16384, where all residues would need 4 GB."""
    a = float64(16384, 16384)
    plan = planned(a, a)
    of_c = next(each for each in plan.scratch if each.name == "residues of C")
    assert of_c.bytes <= parts_of_c.MOST_RESIDUES_OF_C
    multiplying = [each for each in plan.launches if each.spec.variant.name == "split_float64"]
    assert [int(each.kernel_args[0]) for each in multiplying] == [4096] * 4
    assert [each.begins[0] for each in multiplying] == [rows * 16384 for rows in (0, 4096, 8192, 12288)]
    small = planned(float64(1000, 8192), float64(8192, 1000))
    assert len(small.launches) == 5


def test_sizes_that_it_does_not_count_to() -> None:
    with pytest.raises(ShapeError, match=r"2\^29.*'warp_tiled'"):
        planned(float64(1, (1 << 29) + 1), float64((1 << 29) + 1, 1))
    with pytest.raises(ShapeError):
        planned(float64(1 << 20, 1), float64(1, 1 << 23))


@pytest.mark.parametrize("sizes", [(0, 5, 7), (5, 0, 7), (5, 7, 0)])
def test_empty_products_have_a_schedule(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    for out in (None, describe(np.zeros((m, n + 1))[:, :n])):  # computed as it is, and transposed
        choice = select("split_float64", None, resolve(describe(float64(m, k)), describe(float64(k, n)), out))
        assert schedule(choice.spec, choice.product.problem).workspace < 1 << 20


def test_sizes_that_it_just_counts_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planned(float64(1, 1 << 29), float64(1 << 29, 1)).launches
    a, b = float64(200, 300), float64(300, 140)
    monkeypatch.setattr(parts_of_c, "MOST_TILES", 15 * 2 * 2)
    assert planned(a, b, tile=128).launches
    monkeypatch.setattr(parts_of_c, "MOST_TILES", 15 * 2 * 2 - 1)
    with pytest.raises(ShapeError):
        planned(a, b, tile=128)


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"moduli": 13}, "moduli.*14.*16"), ({"moduli": 17}, "moduli.*14.*16"),
        ({"split_k": 2}, "split_k.*1"),
        ({"pack_a": 1}, "residues"), ({"scheme": "fp16x3"}, "'fp16x3'"),
        ({"stages": 1}, "stages.*2"),
    ],
)  # fmt: skip
def test_numbers_that_it_cannot_have(numbers: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        planned(float64(500, 500), float64(500, 500), **numbers)


def test_other_variants_have_no_moduli() -> None:
    with pytest.raises(ConfigError, match=r"moduli.*0"):
        kernel_spec("tiled", config={"moduli": 15})
    assert "moduli" not in render(kernel_spec("tiled"))
    assert "moduli=15" in render(kernel_spec("split_float64").kernel)


def test_types_that_it_does_not_multiply() -> None:
    for dtype in ("float32", "complex64", "int64"):
        with pytest.raises(UnsupportedTypeError, match=f"{dtype}.*float64, complex128"):
            kernel_spec("split_float64", dtype=dtype)


def test_what_precedes_and_follows_is_compiled_ahead() -> None:
    for layout in ("NN", "TT", "GN"):
        plan = planned(float64(500, 600, layout[0]), float64(600, 500, layout[1]))
        spec = kernel_spec("split_float64", layout=layout)
        assert {each.spec for each in plan.launches} <= required_kernels(spec)
    assert "is_decomposed(p) == false" in render(fallbacks(kernel_spec("split_float64"))[0].spec)


def test_precisions() -> None:
    a = float64(4096, 4096)
    wanted = resolve(describe(a), describe(a))
    assert not H100_IEEE.takes("split_float64")
    for precision in ("full", "float32", "tf32", "fp16x3"):
        kernel = KernelKeywords(variant="split_float64", precision=precision)
        assert with_scheme(wanted, kernel).variant == "split_float64"
    with pytest.raises(ConfigError, match="'ieee'"):
        with_scheme(wanted, KernelKeywords(variant="split_float64", precision="ieee"))
    for model_of in (H100, H100_IEEE):
        assert select(AUTO, None, wanted, model=model_of).spec.compute.dtype_name == "float64"
    assert "float64" in str(tiledmm.explain(a, a))


def test_auto_takes_it_where_its_rates_are_known_and_it_pays() -> None:
    a = float64(4096, 4096)
    wanted, huge = (resolve(describe(x), describe(x)) for x in (a, float64(40_000, 40_000)))
    rates = H100.rates.only(lambda variant: variant != "split_float64")
    nothing = replace(rates.device, decomposing_residues={}, reconstructing=0.0)
    name = "split_float64", 256, "float64"
    (row,) = (row for row in kernels_of(rates) if (row.variant, row.tile, row.type) == name)
    row = replace(row, tflops=120.0, residents=(), overhead_k=100.0)
    known = replace(
        rates.device, decomposing_residues={"N": 2.0, "T": 1.5, "G": 1.5}, residue_launches=20.0, reconstructing=2.0
    )
    for device, taken in ((known, True), (nothing, False)):
        fast = Model(H100.gpu, replace(rates, rows=(*rates.rows, row), device=device))
        choice = fast.best(wanted)
        assert (choice.spec.variant.name == "split_float64") is taken
        assert choice.spec.config.launch.split_k == 1 or not taken
        in_parts = [each for each in fast.rank(huge) if each.spec.variant.name == "split_float64"]
        assert bool(in_parts) is taken
        assert all(each.others and each.workspace < 18 << 30 for each in in_parts), "not 48 GB at once"
    fast = Model(H100.gpu, replace(rates, rows=(*rates.rows, row), device=known))
    times = [each.microseconds for each in fast.rank(wanted) if each.spec.variant.name == "split_float64"]
    product, moved = 2 * 4096**3 / 120e6, (15 + 8) * 3 * 4096**2 / 2e6
    assert min(times) == pytest.approx(product + moved + 20, rel=0.25)
    ieee = Model(H100.gpu, replace(rates, rows=(*rates.rows, row), device=known), ieee=True)
    assert ieee.best(wanted).spec.variant.name != "split_float64"


def test_full_is_the_default_and_float32_another_name_of_it() -> None:
    a = matrix(4096, 4096)
    assert str(tiledmm.explain(a, a)) == str(tiledmm.explain(a, a, precision="full"))
    assert str(tiledmm.explain(a, a, precision="float32")) == str(tiledmm.explain(a, a, precision="full"))
