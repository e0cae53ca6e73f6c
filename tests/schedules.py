"""Record the launches and scratch memory of chosen products, and the kernels that are compiled ahead of them.

``python -m tests.schedules`` rewrites ``schedules.json`` after an intended change; its diff shows what changed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.expected import matrix, product
from tests.strategies import np_dtype
from tiledmm.kernels.launches import Launch, Scratch
from tiledmm.kernels.operands.operand_scan import SCAN, SCAN_INIT
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.tensor_maps import TensorMap
from tiledmm.kernels.variants import kernel_spec
from tiledmm.problem.product import Product, resolve
from tiledmm.schedule.schedule import required_kernels, schedule
from tiledmm.selection.choose import select
from tiledmm.selection.model import H100

PATH = Path(__file__).parent / "schedules.json"

#: A kernel by name, the product's type, its layouts (of A, of B), and m, n, k. Each takes a branch of its own.
_NAMED: tuple[tuple[str, int | None, dict[str, Any], str, str, tuple[int, int, int]], ...] = (
    ("naive", None, {}, "float64", "GT", (1, 21, 300)),
    ("naive", None, {}, "int8", "NN", (5, 7, 0)),
    ("naive", None, {}, "float32", "NN", (4, 4, (1 << 31) + 5)),
    ("tiled", 8, {}, "float32", "NT", (150_000, 1 << 20, 4)),
    ("tiled", 8, {"split_k": 7}, "complex64", "TN", (33, 21, 41)),
    ("warp_tiled", 64, {"pack_b": 1}, "complex128", "NT", (70, 91, 301)),
    ("warp_tiled", 64, {"pack_elements": 1, "split_k": 2}, "bool", "TT", (70, 91, 301)),
    ("warp_tiled", 64, {"pack_elements": 1}, "uint8", "GN", (1, 1, 7)),
    ("warp_tiled", 32, {"pack_a": 1, "pack_b": 1}, "float32", "TT", (1 << 21, 64, 1 << 20)),
    ("warp_tiled", 32, {"pack_a": 1}, "float32", "TN", (8, 8, 1 << 36)),
    ("thin", 16, {"pack_a": 1, "pack_b": 1}, "float32", "TT", (9, 300, 200)),
    ("tiny", 4, {}, "float64", "NN", (4, 3, 5)),
    ("tensor_core", None, {"split_k": 2}, "float16", "NN", (130, 70, 640)),
    ("wgmma", 64, {}, "float16", "NN", (64, 72, 80)),
    ("wgmma", 128, {"split_k": 2}, "float16", "TT", (136, 264, 648)),
    ("wgmma", 256, {}, "bfloat16", "NT", (300, 512, 200)),
    ("wgmma", 64, {}, "float16", "GG", (65, 67, 69)),
    ("wgmma", 128, {}, "int8", "NN", (160, 128, 256)),
    ("wgmma", 64, {}, "float16", "NN", (1, 8, 16)),
    ("wgmma", 64, {}, "float16", "NT", (16, 1, 16)),
    ("wgmma", 64, {}, "float16", "TN", (5, 6, 0)),
    ("split_float32", None, {}, "float32", "NN", (200, 140, 255)),
    ("split_float32", None, {}, "float32", "NN", (200, 140, 256)),
    ("split_float32", None, {}, "float32", "NT", (200, 140, 2048)),
    ("split_float32", 64, {"split_k": 2}, "float32", "NT", (200, 141, 2049)),
    ("split_float32", None, {"scheme": "tf32x3"}, "float32", "TN", (200, 140, 300)),
    ("split_float32", None, {}, "complex64", "NN", (65, 33, 127)),
    ("split_float32", None, {}, "complex64", "NT", (65, 33, 1024)),
    ("split_float32", None, {}, "complex64", "NT", (65, 33, 1025)),
    ("split_float32", None, {}, "complex64", "TN", (65, 33, 300)),
    ("split_tensor_core", None, {"split_k": 2}, "float32", "NN", (100, 90, 700)),
    ("split_tensor_core", 64, {}, "complex64", "TT", (100, 90, 300)),
    ("split_integer", None, {}, "int32", "NN", (100, 90, 300)),
    ("split_integer", 64, {"split_k": 2}, "uint64", "TT", (65, 33, 1001)),
    ("split_float64", None, {}, "float64", "NN", (100, 90, 300)),
    ("split_float64", 64, {"moduli": 16}, "float64", "TT", (65, 33, 1001)),
    ("split_float64_tensor_core", None, {}, "complex128", "NT", (65, 33, 100)),
)

#: Batches, and the dimensions in which A or B is repeated. In the last one both are.
_BATCHES: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = (
    ((6,), (), ()), ((6,), (0,), ()), ((6,), (), (0,)), ((2, 3), (), (1,)), ((2, 3), (1,), ()),
    ((3, 1, 5), (0,), (2,)), ((2, 3, 4), (1,), (0, 2)),
)  # fmt: skip

#: Kernels that are run on the last batch; the first one, which copies no operand, on every batch.
_IN_BATCHES = (
    ("naive", None, {}, "float32", "NT", (33, 21, 30)),
    ("warp_tiled", 32, {"pack_a": 1, "pack_b": 1, "split_k": 2}, "float32", "TN", (70, 90, 301)),
    ("warp_tiled", 64, {"pack_elements": 1}, "int8", "NN", (70, 91, 301)),
    ("wgmma", 64, {}, "float16", "NT", (64, 72, 80)),
    ("wgmma", 64, {"split_k": 2}, "float16", "GN", (65, 67, 269)),
    ("split_float32", None, {}, "float32", "TN", (200, 140, 300)),
    ("split_tensor_core", None, {"split_k": 2}, "complex64", "NT", (33, 65, 300)),
    ("split_integer", None, {}, "int32", "TN", (65, 33, 100)),
    ("split_float64", None, {}, "float64", "TN", (65, 33, 100)),
    ("split_float64_tensor_core", None, {}, "float64", "TN", (65, 33, 100)),
)

#: Kernels whose auxiliary kernels are listed: variant, tile, type, layout, split-K factors, and whether for ``auto``.
_REQUIRED = (
    ("tiled", 32, "float16", "TT", (2, 40), False),
    ("warp_tiled", 64, "float16", "NT", (2,), True),
    ("warp_tiled", 64, "int8", "NT", (2,), True),
    ("warp_tiled", 64, "int8", "NN", (), True),
    ("warp_tiled", 64, "int8", "NT", (2,), False),
    ("wgmma", 128, "float16", "TT", (4,), True),
    ("wgmma", 64, "tf32", "NN", (), False),
    ("split_float32", 128, "float32", "TN", (), False),
    ("split_float32", 128, "complex64", "NT", (3,), True),
    ("split_tensor_core", 128, "float32", "NN", (), False),
    ("split_integer", 128, "int32", "NN", (), False),
    ("split_float64", 128, "float64", "TN", (), False),
)


def _scratch(each: Scratch) -> str:
    shape = " x ".join(map(str, each.shape))
    return f"{each.name}: {shape} of {each.element.name}, pitch {each.pitch}, {each.bytes} bytes" + (
        f" of {SCAN_INIT:#x}" if each.name == SCAN else ""
    )


def _map(each: TensorMap) -> str:
    rounds = ", rounded" if each.rounds else ""
    return f"map of {each.sizes} by {each.strides} in {each.box} of {each.itemsize} bytes{rounds}"


def _launch(each: Launch) -> str:
    where = ", ".join(f"{name} + {begin}" for name, begin in zip(each.operands, each.begins, strict=True))
    scan = f"; scan at {each.scan}" if each.scan else ""
    maps = "".join(f"; {_map(map_)}" for map_ in each.maps)
    blocks = f"{each.blocks} blocks with {each.spec.shared_bytes} bytes"
    return f"{_symbol(each.spec)}, {blocks}, {where}{scan}{maps}; {_args(each.kernel_args.tolist())}"


def _args(members: list[int]) -> str:
    """Return the members of a kernel's ``Problem`` without the strides of a batch where these are all 0."""
    matrices = [members[begin : begin + 5] for begin in (13, 18, 23)]
    in_batch = any(any(strides[2:]) for strides in matrices)
    strides = itertools.chain(*(each if in_batch else each[:2] for each in matrices))
    return " ".join(map(str, (*members[:13], *strides, *members[28:])))


def told(spec: KernelSpec, wanted: Product) -> list[str]:
    """Describe a product's launches and its scratch memory, one per line."""
    found = schedule(spec, wanted.problem)
    return [*map(_launch, found.launches), *map(_scratch, found.scratch)]


def _products() -> Iterator[tuple[str, KernelSpec, Product]]:
    def named(label: str, wanted: Product, variant: str, tile: int | None, config: dict[str, Any]) -> Any:
        choice = select(variant, tile, wanted, config or None)
        return f"{label} by {variant} {tile} {config}", choice.spec, choice.product

    for variant, tile, config, dtype, layout, sizes in _NAMED:
        yield named(f"{dtype} {layout} {sizes}", product(dtype, layout, (1, *sizes), 0), variant, tile, config)
    for variant, tile, config, dtype, layout, (m, n, k) in _IN_BATCHES:
        kind = np_dtype(dtype)
        for batch, once_a, once_b in _BATCHES if variant == "naive" else _BATCHES[-1:]:
            a = matrix((*batch, m, k), layout[0], 0, kind, once_a)
            b = matrix((*batch, k, n), layout[1], 0, kind, once_b)
            label = f"{dtype} {layout} {batch} - {once_a} - {once_b} {(m, n, k)}"
            yield named(label, resolve(a, b), variant, tile, config)
    wide = matrix((1 << 31, 1, 3), "N", 0, np_dtype("float32")), matrix((3, 1), "N", 0, np_dtype("float32"))
    yield named("2^31 products", resolve(*wide), "naive", None, {})
    for first, second, variant in (("float16", "float32", "warp_tiled"), ("float32", "float16", "wgmma")):
        a, b = matrix((72, 80), "N", 0, np_dtype(first)), matrix((80, 88), "T", 8, np_dtype(second))
        yield named(f"{first} @ {second}", resolve(a, b, dtype="float16", casting="unsafe"), variant, None, {})
    for letter, gap in (("T", 3), ("G", 0)):
        a, b = (matrix((72, 72), "N", 0, np_dtype("float16")) for _ in range(2))
        wanted = resolve(a, b, matrix((72, 72), letter, gap, np_dtype("float32")))
        for variant, config in (("warp_tiled", {"split_k": 2}), ("wgmma", {"split_k": 2})):
            yield named(f"into {letter} +{gap}", wanted, variant, 64, config)
    # A part of a product begins amid all three matrices.
    for variant, dtype, layout, tile, config in (
        ("warp_tiled", "float32", "TT", 32, {"pack_a": 1, "pack_b": 1, "split_k": 2}),
        ("warp_tiled", "int8", "TT", 32, {"pack_elements": 1}),
        ("wgmma", "float16", "TT", 64, {"split_k": 2}),
        ("wgmma", "float16", "NN", 64, {}),
        ("split_float32", "float32", "TT", 64, {}),
        ("split_integer", "int32", "TT", 64, {}),
        ("split_float64", "float64", "TT", 64, {}),
    ):
        choice = select(variant, tile, product(dtype, layout, (2, 300, 200, 600), 8), config or None)
        part = choice.product.part(range(64, 200), range(40, 200))
        yield f"{dtype} {layout} part by {variant} {config}", choice.spec, part
    symmetric = H100.best(product("float32", "NT", (3, 700, 700, 200), 0, symmetric=True))
    yield "symmetric", symmetric.spec, symmetric.product
    for dtype in ("complex64", "complex128"):
        wanted = replace(product(dtype, "NT", (1, 2000, 2000, 1500), 0, symmetric=True), conjugates=(False, True))
        hermitian = H100.best(wanted)
        yield f"hermitian {dtype}", hermitian.spec, hermitian.product


def _symbols(kernels: Iterable[KernelSpec]) -> list[str]:
    return sorted(map(_symbol, kernels))


def _symbol(spec: KernelSpec) -> str:
    """Return a kernel's symbol without the package's name, and its properties that the symbol does not include."""
    condition = f" {spec.condition}" if spec.condition else ""
    triangle = f" triangle {spec.config.triangle}" if spec.config.triangle else ""
    return spec.symbol.removeprefix("tiledmm_") + condition + triangle


def schedules() -> dict[str, list[str]]:
    """Return the lines of each product, and of each kernel's auxiliary kernels."""
    found = {name: told(spec, wanted) for name, spec, wanted in _products()}
    for variant, tile, dtype, layout, factors, by_auto in _REQUIRED:
        spec = kernel_spec(variant, tile=tile, dtype=dtype, layout=layout)
        name = f"{variant} {tile} {dtype} {layout}, split-K {factors}, {'auto' if by_auto else 'named'}"
        found[name] = _symbols(required_kernels(spec, factors, by_auto))
    for layout in ("NN", "NT"):
        spec = kernel_spec("split_float32", layout=layout, config={"scheme": "tf32x3"}).with_packing_for_tma(True, True)
        found[f"split_float32 tf32x3 {layout}"] = _symbols(required_kernels(spec))
    return found


if __name__ == "__main__":
    PATH.write_text(json.dumps(schedules(), indent=0) + "\n", "utf-8")
