"""Tests of products of 8-bit integers with wider results on the device, bit for bit as NumPy's."""

from __future__ import annotations

import itertools

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import SMALLEST, check_into, exact_product, matrix_layout, to_device, to_host
from tests.strategies import Layout, any_bits, np_dtype, plain
from tiledmm.compile.compilation import compiled
from tiledmm.elements import ELEMENTS, WIDE_RESULTS, compute_element, compute_element_of
from tiledmm.errors import UnsupportedTypeError
from tiledmm.kernels.variants import find_variant, kernel_spec

CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)
TENSOR_CORES = [
    (name, tile)
    for name in ("tensor_core", "wgmma")
    if find_variant(name).runs_on(CAPABILITY, compute_element("int8_int32"))
    for tile in find_variant(name).tiles
]
LAYOUTS = ["".join(pair) for pair in itertools.product("NTG", repeat=2)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("variant", "tile"), TENSOR_CORES)
@pytest.mark.parametrize("name", ["int8_int32", "uint8_int32", "int8_int64", "uint8_uint16"])
def test_every_layout_and_edge(name: str, variant: str, tile: int, layout: str) -> None:
    operand, result = name.split("_")
    rng = np.random.default_rng(140)
    for m, n, k in ((tile, tile, 128), (tile + 1, tile - 1, 129), (2, 2 * tile + 5, 333), (261, 9, 127), (5, 6, 1)):
        left, right = any_bits(rng, (m, k), np_dtype(operand)), any_bits(rng, (k, n), np_dtype(operand))
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        for letter in "NTG" if n == 9 else "N":
            what = f"{name} {variant} {tile} {layout}, C {letter} {m}x{n}x{k}"
            keywords = {"variant": variant, "tile": tile, "dtype": result}
            check_into(exact_product(left, right, result), matrix_layout(letter), x1, x2, what, **keywords)


@pytest.mark.parametrize("name", WIDE_RESULTS)
def test_every_variant_and_auto(name: str) -> None:
    operand, result = name.split("_")
    rng = np.random.default_rng(141)
    left, right = any_bits(rng, (3, 70, 333), np_dtype(operand)), any_bits(rng, (333, 90), np_dtype(operand))
    expected = exact_product(left, right, result)
    cases = [*((variant, tile, None) for variant, tile in SMALLEST), ("auto", None, None)]
    cases += [(variant, tile, {"split_k": 3}) for variant, tile in TENSOR_CORES]
    cases += [(variant, None, {"pack_elements": 1, "split_k": 2}) for variant in ("warp_tiled", "thin")]
    if find_variant("split_integer").runs_on(CAPABILITY, compute_element("int32")):
        cases.append(("split_integer", None, None))
    for variant, tile, config in cases:
        found = tiledmm.matmul(
            to_device(left), to_device(right), dtype=result, variant=variant, tile=tile, config=config
        )
        np.testing.assert_array_equal(to_host(found), expected, f"{name} {variant} {tile} {config}")


@pytest.mark.parametrize("k", [33_025, 33_026, 66_051, 66_052, 131_071, 131_072])
@pytest.mark.parametrize("name", WIDE_RESULTS)
def test_the_largest_sums(name: str, k: int) -> None:
    operand, result = name.split("_")
    left, right = (np.full(shape, -128 if operand == "int8" else 255, operand) for shape in ((70, k), (k, 40)))
    left[1::3, ::2], right[1::3, 1::2] = 127, 1
    expected = exact_product(left, right, result)
    kernels: list[tuple[str, int | None, dict[str, int] | None]] = [("auto", None, None)]
    if compute_element_of(ELEMENTS[operand], ELEMENTS[operand], ELEMENTS[result], k).result_name:
        kernels += [(*each, None) for each in TENSOR_CORES if each[1] == 64]
        kernels.append(("warp_tiled", None, {"pack_elements": 1}))
    else:  # longer sums are computed in 64 bits, which tensor cores do not multiply
        for variant, tile in TENSOR_CORES:
            with pytest.raises(UnsupportedTypeError):
                tiledmm.matmul(to_device(left), to_device(right), dtype=result, variant=variant, tile=tile)
    for variant, tile, config in kernels:
        keywords = {"variant": variant, "tile": tile, "config": config, "dtype": result}
        check_into(expected, plain(2), to_device(left), to_device(right), f"{name} {k} {variant}", **keywords)


@pytest.mark.parametrize("out", ["int32", "int64", "int8", "uint8", "float64", "complex64"])
@pytest.mark.parametrize(("variant", "tile"), [*TENSOR_CORES, ("auto", None)])
def test_the_type_of_out(variant: str, tile: int | None, out: str) -> None:
    rng = np.random.default_rng(142)
    left, right = any_bits(rng, (100, 300), np_dtype("int8")), any_bits(rng, (300, 50), np_dtype("int8"))
    expected = exact_product(left, right, "int32").astype(out)
    keywords = {"variant": variant, "tile": tile, "dtype": "int32", "casting": "unsafe"}
    for letter in "NT":
        check_into(expected, matrix_layout(letter), to_device(left), to_device(right), f"{variant} {out}", **keywords)
    found = tiledmm.matmul(to_device(left), to_device(right), out=cupy.zeros((100, 50), out), casting="unsafe")
    np.testing.assert_array_equal(to_host(found), exact_product(left, right).astype(out), "without dtype= they wrap")


@pytest.mark.parametrize(("variant", "tile"), [*TENSOR_CORES, ("auto", None)])
def test_batches(variant: str, tile: int | None) -> None:
    rng = np.random.default_rng(143)
    left = any_bits(rng, (3, 1, 70, 200), np_dtype("uint8"))
    right = any_bits(rng, (4, 200, 90), np_dtype("uint8"))
    x1, x2 = to_device(left, Layout((3, 0, 1, 2), (1, 1, 1, 1), (0, 0, 0, 0))), to_device(right)
    keywords = {"variant": variant, "tile": tile, "dtype": "int32"}
    check_into(exact_product(left, right, "int32"), plain(4), x1, x2, "batch", **keywords)
    same = cupy.broadcast_to(to_device(right[0]), (4, 200, 90))
    found = tiledmm.matmul(x1, same, **keywords)
    np.testing.assert_array_equal(to_host(found), exact_product(left, np.broadcast_to(right[0], (4, 200, 90)), "int32"))


@pytest.mark.skipif(("wgmma", 256) not in TENSOR_CORES, reason="needs Hopper")
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_auto_takes_wgmma_for_large_products(layout: str) -> None:
    rng = np.random.default_rng(144)
    left, right = any_bits(rng, (4096, 4096), np_dtype("int8")), any_bits(rng, (4096, 4096), np_dtype("int8"))
    x1, x2 = (to_device(x, plain(2) if letter == "N" else Layout((1, 0), (1, 1), (0, 0)))
              for x, letter in zip((left, right), layout, strict=True))  # fmt: skip
    assert tiledmm.explain(x1, x2, dtype="int32").choices[0].spec.variant.name == "wgmma"
    found = tiledmm.matmul(x1, x2, dtype="int32")
    expected = to_host(x1[::64].astype("f8") @ x2.astype("f8")).astype("i4")
    np.testing.assert_array_equal(to_host(found[::64]), expected)


@pytest.mark.parametrize(("variant", "tile"), TENSOR_CORES)
@pytest.mark.parametrize("name", WIDE_RESULTS)
def test_nothing_spills(name: str, variant: str, tile: int) -> None:
    for layout in ("NN", "NT"):
        assert compiled(kernel_spec(variant, tile=tile, dtype=name, layout=layout).kernel).local_bytes == 0
