"""Split-K in one launch on the simulator: right, in the order of partitions, and no race between blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import slow_unless
from tests.strategies import any_bits, np_dtype, small_integers
from tiledmm import simulator
from tiledmm.codegen.rendering import render
from tiledmm.codegen.specialization import specialize
from tiledmm.elements import ELEMENTS, PACKED_ELEMENTS
from tiledmm.errors import ConfigError
from tiledmm.registry.variants import find_variant, kernel_variants
from tiledmm.schedule import launches
from tiledmm.schedule.schedule import with_fixup

KERNELS = [(row.name, min(row.tiles)) for row in kernel_variants() if row.has_fixup]
LAYOUTS = ("NN", "NT", "TN", "TT", "GG", "NG")


def matrices(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, letter: str) -> np.ndarray:
    kind = np_dtype(dtype)

    def values(shape: tuple[int, ...]) -> np.ndarray:
        return any_bits(rng, shape, kind) if kind.kind in "iub" else small_integers(rng, shape, kind, 1)

    if letter == "G":
        return values((*shape[:-1], 2 * shape[-1]))[..., ::-2]
    x = values(shape)
    return x if letter == "N" else np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def exact(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    if x1.dtype.kind in "iub":
        return np.matmul(x1, x2)
    wide = np.complex128 if x1.dtype.kind == "c" else np.float64
    return np.matmul(x1.astype(wide), x2.astype(wide)).astype(x1.dtype)


def check(x1: np.ndarray, x2: np.ndarray, out: np.ndarray | None = None, **keywords: Any) -> None:
    """The product is exact, in one launch, and nothing is found."""
    result, report = simulator.run(x1, x2, out=out, **keywords)
    assert "_fixup" in report.symbol
    assert report.findings == () and report.warnings == ()
    np.testing.assert_array_equal(result, exact(x1, x2).astype(result.dtype))


@pytest.mark.parametrize(
    ("variant", "tile", "dtype"),
    [
        pytest.param(*kernel, dtype, marks=slow_unless((i + j) % 5 == 0))
        for i, kernel in enumerate(KERNELS)
        for j, dtype in enumerate(ELEMENTS)
        if find_variant(kernel[0]).multiplies(ELEMENTS[dtype])
    ],
)
def test_every_kernel_and_type(variant: str, tile: int, dtype: str) -> None:
    turn = list(ELEMENTS).index(dtype) + [name for name, _ in KERNELS].index(variant)
    layout, partitions = LAYOUTS[turn % len(LAYOUTS)], (2, 3, 7)[turn % 3]
    rng = np.random.default_rng(turn)
    # No side is a multiple of a tile, nor of what is read at a time; K is no multiple of the partitions.
    x1, x2 = matrices(rng, (2, 35, 401), dtype, layout[0]), matrices(rng, (401, 39), dtype, layout[1])
    check(x1, x2, variant=variant, tile=tile, config={"split_k": partitions, "fixup": 1})


@pytest.mark.parametrize("tile", [64, 128])
def test_tf32(tile: int) -> None:
    x1, x2 = (matrices(np.random.default_rng(3), shape, "float32", "N") for shape in ((70, 200), (200, 61)))
    check(x1, x2, variant="tensor_core", tile=tile, precision="tf32", config={"split_k": 3, "fixup": 1})


@pytest.mark.parametrize("dtype", PACKED_ELEMENTS)
def test_packed_elements(dtype: str) -> None:
    rng = np.random.default_rng(4)
    x1, x2 = matrices(rng, (35, 1300), dtype, "T"), matrices(rng, (1300, 38), dtype, "N")
    if dtype == "bool":
        x1 &= rng.random(x1.shape) < 0.002
    check(x1, x2, variant="warp_tiled", tile=32, config={"pack_elements": 1, "split_k": 3, "fixup": 1})


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 64), (64, 64, 64), (8, 130, 65), (33, 1, 97), (5, 7, 3)])
@pytest.mark.parametrize("partitions", [2, 5, 64])
def test_shapes(m: int, n: int, k: int, partitions: int) -> None:
    rng = np.random.default_rng(m)
    x1, x2 = matrices(rng, (m, k), "float32", "N"), matrices(rng, (k, n), "float32", "N")
    result, report = simulator.run(x1, x2, variant="tiled", tile=8, config={"split_k": partitions, "fixup": 1})
    assert report.findings == () and ("_fixup" in report.symbol) is (k > 8), "one partition has nothing to add"
    np.testing.assert_array_equal(result, exact(x1, x2))


@pytest.mark.parametrize("letter", ["N", "T", "G"])
@pytest.mark.parametrize(("dtype", "into"), [("float16", "float32"), ("int8", "float64"), ("float32", "complex64")])
def test_results_of_any_layout_and_type(dtype: str, into: str, letter: str) -> None:
    rng = np.random.default_rng(5)
    x1, x2 = matrices(rng, (3, 20, 100), dtype, "N"), matrices(rng, (3, 100, 19), dtype, "T")
    out = {
        "N": np.full((3, 20, 21), 99, into)[..., :19],
        "T": np.full((3, 19, 23), 99, into)[..., :20].swapaxes(-1, -2),
        "G": np.full((3, 20, 38), 99, into)[:, ::-1, ::-2],
    }[letter]
    around = out.base.copy() if out.base is not None else out.copy()
    check(x1, x2, out, variant="warp_tiled", tile=32, config={"split_k": 4, "fixup": 1})
    again = out.base if out.base is not None else out
    assert (again == 99).sum() >= around.size - out.size, "nothing beside it is written"


def test_batches_in_one_launch_and_in_several() -> None:
    rng = np.random.default_rng(6)
    x = small_integers(rng, (2, 1, 2, 3, 2, 3, 5, 40), np.dtype("f4"))
    x1, x2 = x[::-1, :, ::-1, :, ::-1, :], x[:, :1, :, :1, :, :1].swapaxes(-1, -2)
    check(x1, x2, variant="tiled", tile=8, config={"split_k": 3, "fixup": 1})


@pytest.mark.parametrize("most", [1, 5])
def test_more_tiles_than_a_launch_numbers(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    x1, x2 = small_integers(rng, (2, 3, 17, 37), np.dtype("f4")), small_integers(rng, (3, 37, 20), np.dtype("f4"))
    monkeypatch.setattr(launches, "MOST_TILES", most)
    check(x1, x2, variant="tiled", tile=8, config={"split_k": 3, "fixup": 1})


@pytest.mark.parametrize(("dtype", "tile"), [("float32", 32), ("float64", 32), ("complex64", 64)])
def test_a_triangle(dtype: str, tile: int) -> None:
    x = matrices(np.random.default_rng(8), (2, 75, 130), dtype, "N")
    config = {"triangle": 1, "split_k": 3, "fixup": 1}
    check(x, x.swapaxes(-1, -2), variant="warp_tiled", tile=tile, config=config)


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64"])
@pytest.mark.parametrize("variant", ["tiled", "warp_tiled", "dot_products", "axpy"])
def test_as_many_bits_as_with_a_reduction(variant: str, dtype: str) -> None:
    """Up to 8 partitions the split-K reduction adds in the same order."""
    rng = np.random.default_rng(9)
    x1, x2 = ((rng.standard_normal(shape) + 0).astype(dtype) for shape in ((37, 300), (300, 41)))
    keywords: dict[str, Any] = {"variant": variant, "tile": min(find_variant(variant).tiles)}
    for threads in ("forward", "reverse", "random"):
        one = simulator.run(x1, x2, config={"split_k": 7, "fixup": 1}, threads=threads, **keywords)[0]
        two = simulator.run(x1, x2, config={"split_k": 7}, **keywords)[0]
        np.testing.assert_array_equal(one.view(np.uint8), two.view(np.uint8))


@pytest.mark.parametrize(
    ("line", "instead", "kind"),
    [
        ("__threadfence();   // whoever sees", "// whoever sees", "race on global memory"),
        (
            "    __syncthreads();   // every thread has written its partial",
            "    // every thread",
            "race on global memory",
        ),
        ("== others;\n", "== others - 1;\n", "race on global memory"),
    ],
)
def test_a_fixup_without_its_order_is_found(tmp_path: Path, line: str, instead: str, kind: str) -> None:
    text = render(with_fixup(specialize("tiled", tile=8, config={"split_k": 3, "fixup": 1})))
    assert text.count(line) == 1
    file = tmp_path / "tiled.cu"
    file.write_text(text.replace(line, instead), "utf-8")
    rng = np.random.default_rng(10)
    x1, x2 = small_integers(rng, (9, 48), np.dtype("f4")), small_integers(rng, (48, 8), np.dtype("f4"))
    _, report = simulator.run(x1, x2, variant="tiled", tile=8, config={"split_k": 3, "fixup": 1}, source=file)
    assert kind in {each.kind for each in report.findings}


@pytest.mark.parametrize("variant", [row.name for row in kernel_variants() if not row.has_fixup])
def test_variants_without_one_say_so(variant: str) -> None:
    with pytest.raises(ConfigError, match="fixup is 0"):
        specialize(variant, config={"split_k": 2, "fixup": 1})
    for wrong in (2, -1, True):
        with pytest.raises(ConfigError, match="fixup is"):
            specialize("tiled", config={"fixup": wrong})
