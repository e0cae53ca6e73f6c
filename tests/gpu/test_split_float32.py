"""Tests of decomposed products on a device: exact where float32 is, and as accurate otherwise, for any data."""

from __future__ import annotations

import itertools
from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from benchmarks.splits import uses_tensor_cores
from benchmarks.support.accuracy import accuracy, keeps_promise
from benchmarks.support.data import DECOMPOSED, EITHER, KINDS, LONG, ONE_LIMB, operands
from tests.gpu.device import check_into, exact_product, matrix_layout, to_device, to_host
from tests.strategies import plain, small_integers
from tiledmm.compile.compilation import compiled
from tiledmm.elements import ELEMENTS, SCHEMES
from tiledmm.errors import UnsupportedTypeError
from tiledmm.kernels.variants import find_variant, kernel_spec, kernel_variants
from tiledmm.schedule.schedule import required_kernels

CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)
ROWS = [(row, name) for row in kernel_variants() if row.operands.schemes for name, _ in row.types if name in ELEMENTS]
#: Variants and types: what runs on this device, the fastest first, and what does not.
RUN = [(row.name, dtype) for row, dtype in ROWS if row.runs_on(CAPABILITY, ELEMENTS[dtype])]
ELSEWHERE = [(row.name, dtype) for row, dtype in ROWS if (row.name, dtype) not in RUN]
#: ConfigOverrides that are not a tile's own: columns are of real numbers.
NUMBERS = {
    "split_float32": ({"cluster": 1, "bm": 128}, {"bm": 128, "bn": 128, "wn": 128, "tn": 32, "cluster": 2}),
    "split_tensor_core": (
        {"stages": 2},
        {"min_blocks": 1},
        {"bm": 64, "bn": 64, "wm": 32, "wn": 32, "tm": 4, "tn": 8, "bk": 32, "unroll": 32},
    ),
}


def schemes_of(variant: str, dtype: str) -> tuple[str, ...]:
    """Return the schemes by which a variant decomposes a type, beginning with the default."""
    return find_variant(variant).operands.schemes_of(ELEMENTS[dtype])


def largest_tile(variant: str, dtype: str, scheme: str) -> int:
    """Return the default tile with a scheme, in columns of real numbers."""
    spec = kernel_spec(variant, dtype=dtype, config={"scheme": scheme})
    return spec.config.bn * spec.compute.components


pytestmark = pytest.mark.skipif(not RUN, reason="needs compute capability 8.0 or newer")
each_kernel = pytest.mark.parametrize(("variant", "dtype"), RUN)
OF_SCHEMES = [(*each, scheme) for each in RUN for scheme in schemes_of(*each)]
each_scheme = pytest.mark.parametrize(("variant", "dtype", "scheme"), OF_SCHEMES)
#: Kernels by scheme and tile: all tiles with the default scheme, and the default tile with the others.
TILES = [
    (name, dtype, scheme, tile)
    for name, dtype in RUN
    for i, scheme in enumerate(schemes_of(name, dtype))
    for tile in (find_variant(name).tiles if i == 0 else (largest_tile(name, dtype, scheme),))
]


def integers(rng: np.random.Generator, *shape: int, dtype: str = "float32", bound: int = 2) -> np.ndarray:
    return small_integers(rng, shape, dtype, bound=bound)


def normal(rng: Any, *shape: int, dtype: str = "float32") -> Any:
    """Return normal numbers from CuPy's or NumPy's generator, in both parts of complex types."""
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype == "complex64" else values).astype(dtype)


def wide(x: Any) -> Any:
    """Convert an array to float64 or complex128."""
    return x.astype(np.promote_types(x.dtype, np.float64))


def parts(x: cupy.ndarray) -> np.ndarray:
    """Return an array's real numbers on the host, so that NaNs of both parts can be compared."""
    return np.ascontiguousarray(x.get()).view(np.float32)


def scaled(numbers: dict[str, Any], dtype: str) -> dict[str, Any]:
    """Convert a tile given in real columns and steps of k to elements of a type."""
    count = ELEMENTS[dtype].components
    return {
        name: value // count if name in ("bn", "wn", "tn", "bk", "unroll") else value for name, value in numbers.items()
    }


@pytest.mark.parametrize("layout", ["".join(pair) for pair in itertools.product("NTG", repeat=2)])
@pytest.mark.parametrize(("variant", "dtype", "scheme", "tile"), TILES)
def test_every_layout_and_edge(variant: str, dtype: str, scheme: str, tile: int, layout: str) -> None:
    rng = np.random.default_rng(110)
    count = ELEMENTS[dtype].components
    bn, least = tile // count, 256 // count
    for m, n, k in ((tile, bn, 256), (tile + 1, bn - 1, 257), (2, 3 * bn + 5, 333), (261, 9, 319), (129, bn + 1, least),
                    (5, 6, least - 1)):  # fmt: skip
        left, right = integers(rng, m, k, dtype=dtype), integers(rng, k, n, dtype=dtype)
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        for letter in "NTG" if n == 9 else "N":
            what = f"{dtype} {scheme} {tile} {layout}, C {letter} {m}x{n}x{k}"
            out, keywords = matrix_layout(letter), {"variant": variant, "tile": tile, "precision": scheme}
            check_into(exact_product(left, right), out, x1, x2, what, **keywords)
        assert uses_tensor_cores(x1, x2, variant, scheme) == (k >= least)


@pytest.mark.parametrize("skipped", range(5))
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@each_scheme
def test_operands_that_begin_anywhere(variant: str, dtype: str, scheme: str, layout: str, skipped: int) -> None:
    # Neighbours are read together where rows, or columns, begin at multiples of what that takes, and end there.
    rng = np.random.default_rng(121)

    def part_of_a_matrix(values: np.ndarray, letter: str) -> cupy.ndarray:
        lines = values if letter == "N" else values.T
        memory = cupy.full((len(lines), (lines.shape[1] + 15) // 8 * 8), cupy.nan, dtype)
        view = memory[:, skipped : skipped + lines.shape[1]]
        view[...] = to_device(lines)
        return view if letter == "N" else view.T

    for m, n, k in ((64, 48, 512), (50, 38, 258), (37, 51, 1027)):
        left, right = integers(rng, m, k, dtype=dtype), integers(rng, k, n, dtype=dtype)
        x1, x2 = (part_of_a_matrix(x, letter) for x, letter in zip((left, right), layout, strict=True))
        what = f"{dtype} {scheme} {layout} {skipped} {m}x{n}x{k}"
        check_into(exact_product(left, right), plain(2), x1, x2, what, variant=variant, precision=scheme)


@each_scheme
def test_resources(variant: str, dtype: str, scheme: str) -> None:
    for layout in ("NN", "NT", "TN", "TT", "GG"):
        spec = kernel_spec(variant, dtype=dtype, layout=layout, config={"scheme": scheme})
        for each in required_kernels(spec):
            kernel = compiled(each)
            assert kernel.shared_bytes == each.shared_bytes
            assert kernel.local_bytes == 0, f"{kernel.symbol} spills registers"
    for tile in find_variant(variant).tiles if scheme == schemes_of(variant, dtype)[0] else ():
        assert tiledmm.kernel(variant, tile=tile, dtype=dtype).local_bytes == 0


@pytest.mark.parametrize("k", [256, 300, 2000, 20_000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("variant", "dtype", "scheme"), [each for each in OF_SCHEMES if SCHEMES[each[2]].limbs == 2]
)  # three are multiplied whatever the data is: see test_schemes
def test_the_promise_is_kept(variant: str, dtype: str, scheme: str, kind: str, k: int) -> None:
    for layout in ("NN", "TT"):
        a, b = operands(kind, dtype, cupy, cupy.random.RandomState(111), 200, 264, k)
        a, b = (x if letter == "N" else cupy.asfortranarray(x) for x, letter in zip((a, b), layout, strict=True))
        errors = accuracy(a, b, variant=variant, precision=scheme)
        assert keeps_promise({"errors": errors}), f"{layout}: {errors}"
        either = kind in EITHER or (kind in ONE_LIMB and k < LONG)
        assert either or uses_tensor_cores(a, b, variant, scheme) == (kind in DECOMPOSED)


@each_scheme
def test_numbers_that_have_no_pieces(variant: str, dtype: str, scheme: str) -> None:
    keywords = {"variant": variant, "precision": scheme}
    rng = cupy.random.RandomState(112)
    a, b = normal(rng, 300, 400, dtype=dtype), normal(rng, 400, 200, dtype=dtype)
    places = ("real", "imag")[: ELEMENTS[dtype].components]
    for value, part in itertools.product((np.inf, -np.inf, np.nan), places):
        x = a.copy()
        getattr(x, part)[123, 45] = value
        for left, right in ((x, b), (b.T, x.T)):
            assert not uses_tensor_cores(left, right, variant, scheme)
            found, expected = tiledmm.matmul(left, right, **keywords), tiledmm.matmul(left, right, variant="warp_tiled")
            np.testing.assert_array_equal(parts(found), parts(expected))
    for scale in (1e30, 2.0**62, 2.0**55):  # float32's products overflow, its sums may, and they do not
        x, y = a * cupy.float32(scale), b * cupy.float32(scale)
        found, expected = (parts(tiledmm.matmul(x, y, **each)) for each in (keywords, {"variant": "warp_tiled"}))
        assert (np.array_equal(found, expected, equal_nan=True)) == (scale > 2.0**55)
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    zeros = parts(tiledmm.matmul(cupy.zeros_like(a), -b, **keywords))
    assert not zeros.any()
    assert not np.signbit(zeros).any()


@pytest.mark.parametrize(("of_a", "of_b"), [(-100, -30), (-126, 20), (-140, 120), (-130, -10), (100, -120), (60, 50)])
@each_scheme
def test_far_exponents(variant: str, dtype: str, scheme: str, of_a: int, of_b: int) -> None:
    # Powers of two change no bit but where results, or operands, are subnormal: those round once.
    rng = np.random.default_rng(113)
    # On the host: CuPy's flushes subnormals.
    x, y = (
        np.ldexp(normal(rng, *shape, dtype=dtype).view("f4").astype("f8"), exponent).astype("f4").view(dtype)
        for shape, exponent in (((130, 256), of_a), ((256, 140), of_b))
    )
    exact = wide(x) @ wide(y)
    found = tiledmm.matmul(to_device(x), to_device(y), variant=variant, precision=scheme).get()
    size = abs(wide(x)) @ abs(wide(y))
    # Subnormal operands are left to multiply-adds, of which each may be half a step off.
    assert (abs(found - exact) <= 2.0**-20 * size + 4 * 256 * 2.0**-150).all()
    assert found.any() or not exact.astype(dtype).any()


@each_scheme
def test_schemes(variant: str, dtype: str, scheme: str) -> None:
    rng = cupy.random.RandomState(114)
    a, b = normal(rng, 300, 1000, dtype=dtype), normal(rng, 1000, 280, dtype=dtype)
    found = tiledmm.matmul(a, b, variant=variant, precision=scheme)
    exact = cupy.matmul(wide(a), wide(b))
    # mma sums 8 steps of k of tf32 at a time, of which each complex one is two: that many partial sums are rounded.
    most = 3.5e-7 if (variant, dtype, scheme) == ("split_tensor_core", "complex64", "tf32x3") else 2.5e-7
    assert float(cupy.linalg.norm(found - exact) / cupy.linalg.norm(exact)) < most
    if variant == next(name for name, its in RUN if its == dtype):
        assert bool((tiledmm.matmul(a, b, precision=scheme) == found).all()), "the first that runs here"
    whole = operands("integers to 64", dtype, cupy, rng, 140, 150, 300)
    found = tiledmm.matmul(*whole, variant=variant, precision=scheme)
    assert bool((found == cupy.matmul(*map(wide, whole))).all())
    # A complex row with one 1 in each part makes sums of two terms, and counts such of a few that are large: float32
    # rounds these once, and tensor cores cut off, then round. That is what a scheme does which is asked for by name.
    few_terms = {"one 1 a row", "counts of words"} if dtype == "complex64" else set()
    for kind in (name for name in KINDS if name not in few_terms):
        errors = accuracy(*operands(kind, dtype, cupy, rng, 140, 150, 1000), variant=variant, precision=scheme)
        assert keeps_promise({"errors": errors}), f"{kind}: {errors}"


@pytest.mark.parametrize(
    ("variant", "dtype", "numbers"),
    [
        (name, dtype, numbers)
        for name, dtype in RUN
        for numbers in (
            *({"scheme": scheme, "split_k": slices} for scheme in schemes_of(name, dtype) for slices in (1, 3)),
            {"group": 1},
            *NUMBERS[name],
        )
    ],
)
def test_batches_and_numbers(variant: str, dtype: str, numbers: dict[str, Any]) -> None:
    rng = np.random.default_rng(115)
    numbers = scaled(numbers, dtype)
    left, right = integers(rng, 3, 150, 833, dtype=dtype), integers(rng, 833, 300, dtype=dtype)
    x1, x2 = to_device(left), to_device(right)
    expected = exact_product(left, right)
    check_into(expected, plain(3), x1, x2, "one B", variant=variant, config=numbers)
    check_into(expected.swapaxes(1, 2), plain(3), x2.T, x1.swapaxes(1, 2), "one A", variant=variant, config=numbers)
    x = normal(cupy.random.RandomState(115), 3, 2, 140, 256, dtype=dtype)
    found = tiledmm.matmul(x, x.swapaxes(2, 3)[:, :1], variant=variant, config=numbers)
    exact = cupy.matmul(wide(x), wide(x).swapaxes(2, 3)[:, :1])
    assert float(cupy.linalg.norm(found - exact) / cupy.linalg.norm(exact)) < 2.5e-7


@each_scheme
def test_batches_that_cannot_be_merged(variant: str, dtype: str, scheme: str) -> None:
    rng = np.random.default_rng(116)
    many = integers(rng, 2, 3, 2, 3, 16, 264, dtype=dtype)
    x1 = to_device(many).transpose(3, 0, 2, 1, 4, 5)[::2]
    x2 = to_device(integers(rng, 264, 32, dtype=dtype))
    keywords = {"variant": variant, "tile": 64, "precision": scheme}
    check_into(exact_product(to_host(x1), to_host(x2)), plain(6), x1, x2, "batch", **keywords)


@pytest.mark.parametrize(
    ("variant", "compute", "scheme", "dtype"),
    [
        (name, compute, scheme, dtype)
        for name, compute in RUN
        for scheme in ("fp16x3", "tf32x3")  # which may be packed first
        for dtype in ("float16", "float32", "float64", "complex64", "complex128")
        if compute == "float32" or dtype.startswith("complex")
    ],
)
def test_results_and_operands_of_other_types(variant: str, compute: str, scheme: str, dtype: str) -> None:
    rng = np.random.default_rng(117)
    left, right = integers(rng, 140, 300, dtype=compute), integers(rng, 300, 150, dtype=compute)
    keywords: dict[str, Any] = {"variant": variant, "precision": scheme, "casting": "unsafe"}
    expected = exact_product(left, right).astype(dtype)
    check_into(expected, plain(2), to_device(left), to_device(right), dtype, **keywords)
    for narrow in ("int16", "float32"):
        for x1, x2 in ((left.real.astype(narrow), right), (left, right.real.astype(narrow))):
            expected = exact_product(x1.astype(compute), x2.astype(compute)).astype(dtype)
            check_into(expected, plain(2), to_device(x1), to_device(x2), narrow, **keywords)


@each_scheme
def test_the_data_decides_in_a_captured_graph(variant: str, dtype: str, scheme: str) -> None:
    keywords = {"variant": variant, "precision": scheme}
    rng = cupy.random.RandomState(118)
    a, b = normal(rng, 400, 500, dtype=dtype), normal(rng, 500, 300, dtype=dtype)
    spread = operands("exponents from -60 to 60", dtype, cupy, rng, 400, 300, 500)
    tiledmm.matmul(a, b, **keywords)  # plans and compiles
    x1, x2, out = a.copy(), b.copy(), cupy.empty((400, 300), dtype)
    cupy.cuda.runtime.deviceSynchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        tiledmm.matmul(x1, x2, out=out, **keywords)
        graph = stream.end_capture()
        for left, right in ((a, b), spread, (a, b)):
            x1[...], x2[...] = left, right
            out.fill(cupy.nan)
            graph.launch(stream)
            stream.synchronize()
            expected = tiledmm.matmul(left, right, **keywords)
            np.testing.assert_array_equal(out.get(), expected.get())


@each_kernel
def test_runs_have_the_same_bits_and_share_no_memory(variant: str, dtype: str) -> None:
    rng = cupy.random.RandomState(119)
    a, b = normal(rng, 1000, 700, dtype=dtype), normal(rng, 700, 900, dtype=dtype)
    first = tiledmm.matmul(a, b, variant=variant).get()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    cupy.cuda.runtime.deviceSynchronize()
    found = []
    for turn in range(8):
        with streams[turn % 4]:
            found.append(tiledmm.matmul(a, b, variant=variant))
    cupy.cuda.runtime.deviceSynchronize()
    for each in found:
        np.testing.assert_array_equal(each.get(), first)
    square = a[:, :700] @ a[:, :700].T
    expected = tiledmm.matmul(square, square.copy(), variant=variant)
    assert tiledmm.matmul(square, square, out=square, variant=variant) is square
    np.testing.assert_array_equal(square.get(), expected.get())


@pytest.mark.parametrize(("variant", "dtype"), ELSEWHERE)
def test_a_variant_for_other_devices_says_what_runs_here(variant: str, dtype: str) -> None:
    a = cupy.ones((300, 300), dtype)
    likewise = [name for name, its in RUN if its == dtype]
    says = f"{variant!r}.*{dtype}.* {(likewise or ['warp_tiled'])[0]!r}"
    with pytest.raises(UnsupportedTypeError, match=says):
        tiledmm.matmul(a, a, variant=variant)
    if not likewise:
        with pytest.raises(UnsupportedTypeError, match=f"{dtype}.*{variant!r}"):
            tiledmm.matmul(a, a, precision="fp16x3")


@each_kernel
def test_precision_decides_what_auto_takes(variant: str, dtype: str) -> None:
    rng = cupy.random.RandomState(120)
    a, b = normal(rng, 4096, 2048, dtype=dtype), normal(rng, 2048, 2048, dtype=dtype)
    first = next(name for name, its in RUN if its == dtype)
    if CAPABILITY in ((8, 0), (9, 0)) and variant == first:  # whose tensor cores are fast enough
        assert variant in str(tiledmm.explain(a, b).choices[0])
        assert not bool((tiledmm.matmul(a, b) == tiledmm.matmul(a, b, precision="ieee")).all())
    ieee_choices = tiledmm.explain(a, b, precision="ieee").choices
    assert not any(part.spec.variant.operands.schemes for choice in ieee_choices for part in choice.parts)
    assert keeps_promise({"errors": accuracy(a, b, precision="ieee")})
    assert bool((tiledmm.matmul(a, b, variant=variant) != tiledmm.matmul(a, b, precision="ieee")).any())
