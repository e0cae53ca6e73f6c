"""From a name to the rung and the tile that compute a product."""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.codegen import Specialization
from tiledmm.elements import Element
from tiledmm.ladder import find_variant
from tiledmm.operands import Product
from tiledmm.problem import Problem

AUTO = "auto"

# SMs of an H100.
_SMS = 132


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel that ``auto`` may choose.

    Attributes:
        variant, tile: Its name.
        few: Of its rate, what an SM reaches that has one block of it, two and so on: all of it with one more.
        start: Steps of k that as much time passes in as in the beginning and the end of a block.
        rates: Where every SM is full, its trillions of floating-point operations a second on an H100, by type.
    """

    variant: str
    tile: int
    few: tuple[float, ...]
    start: int
    rates: dict[str, float]

    @property
    def name(self) -> tuple[str, int]:
        """Variant and tile."""
        return self.variant, self.tile


# From `python -m benchmarks.selection`. Types that behave alike have one name.
CANDIDATES = (
    Candidate("double_buffered", 16, (0.7, 0.9, 1, 1, 1, 1, 1), 16, {
        "float32": 8.2, "int32": 8.2, "float16": 7.5, "int8": 7.4, "float64": 4.7, "complex64": 4.3, "int64": 4.3,
        "complex128": 2.4,
    }),
    Candidate("double_buffered", 32, (0.95,), 16, {"complex128": 4.5}),
    Candidate("double_buffered", 64, (0.66, 0.86), 32, {"int64": 6.9}),
    Candidate("tiled", 64, (0.66, 0.86), 24, {"float16": 27.1, "int8": 25.5}),
    Candidate("warp_tiled", 64, (0.66, 0.86, 1, 1), 16, {"float32": 39.5, "int32": 29.0}),
    Candidate("warp_tiled", 64, (0.77, 0.95), 16, {"float64": 21.5, "complex64": 11.8}),
    Candidate("warp_tiled", 64, (), 16, {"complex128": 5.8}),
    Candidate("warp_tiled", 64, (0.45, 0.7, 0.9), 16, {"float16": 30.5, "int8": 26.5}),
    Candidate("warp_tiled", 128, (0.91,), 24, {"float32": 47.3, "float16": 37.0}),
    Candidate("warp_tiled", 128, (), 24, {"float64": 23.5, "complex64": 12.2, "complex128": 6.1}),
    Candidate("warp_tiled", 256, (), 40, {"float32": 50.2, "int32": 30.1}),
)  # fmt: skip

#: What ``auto`` chooses from, as (variant, tile).
AUTO_KERNELS = tuple(dict.fromkeys(candidate.name for candidate in CANDIDATES))


def select(name: str, tile: int | None, product: Product) -> Specialization:
    """The kernel for a product.

    Args:
        name: A variant, or ``"auto"``.
        tile: A tile of that variant. None: ``auto`` chooses by size, a named variant takes its default.
        product: What is to be computed.

    Raises:
        UnknownVariantError, ConfigError: If there is no such variant or tile.
    """
    if name == AUTO:
        name, best = _fastest(product.problem, product.compute)
        name, tile = (name, best) if tile is None else ("double_buffered", tile)
    variant = find_variant(name)
    config = variant.config(tile, product.compute)
    return Specialization(variant, config, product.a, product.b, product.compute, product.c, product.problem.layout)


def _fastest(problem: Problem, compute: Element) -> tuple[str, int]:
    """The fastest of CANDIDATES, by a model of the time that each takes."""
    kind = _behaves_like(compute)
    times = {
        each.name: _time(each, each.rates[kind], problem, compute)
        for each in CANDIDATES
        if kind in each.rates and (each.name != ("warp_tiled", 256) or _has_wide_rows(problem, compute))
    }
    return min(times, key=times.__getitem__)


def _time(candidate: Candidate, rate: float, problem: Problem, compute: Element) -> float:
    """Of a product on an H100, in no particular unit: the SM that has most blocks is the last."""
    config = find_variant(candidate.variant).config(candidate.tile, compute)
    blocks = _tiles(problem.m, config.bm) * _tiles(problem.n, config.bn) * problem.products
    full, rest = divmod(_tiles(blocks, _SMS), len(candidate.few) + 1)
    rounds = full * (len(candidate.few) + 1) + (rest / candidate.few[rest - 1] if rest else 0)
    return rounds * config.bm * config.bn * (problem.k + candidate.start) / rate


def _behaves_like(compute: Element) -> str:
    """The type in CANDIDATES whose kernels take as long."""
    if compute.dtype_name in ("float32", "float64", "complex64", "complex128"):
        return compute.dtype_name
    return {1: "int8", 2: "float16", 4: "int32", 8: "int64"}[compute.itemsize]


def _has_wide_rows(problem: Problem, compute: Element) -> bool:
    """Whether rows of B can be copied 16 bytes at a time: tiles of 256 columns take too long over single elements."""
    return problem.layout[1] == "N" and problem.strides[2] * compute.itemsize % 16 == 0


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)
