"""Selection of the products that the simulator computes on this machine in acceptable time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiledmm.bench.simulated import operands
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile, multiplying
from tiledmm.elements import compute_element
from tiledmm.errors import CompilationError, ConfigError
from tiledmm.kernels.variants import find_variant, kernel_spec
from tiledmm.problem.call import dtype_of, precision_of
from tiledmm.problem.keywords import AUTO
from tiledmm.simulator import run

#: Sizes that are simulated if no size is given, or all given ones take too long: whole tiles, and partial tiles.
SIZES = (Size(128, 128, 128), Size(61, 83, 47))

#: Maximum time to simulate one product with all kernels, in seconds.
MAX_SECONDS = 60.0

# Multiply-adds of a product that every machine simulates fast enough, so that its time need not be estimated.
_SMALL = 128**3


@dataclass(frozen=True, slots=True)
class Simulable:
    """The sizes of the products to simulate, and those that were requested but would take too long.

    Attributes:
        sizes: Sizes to simulate.
        asked: True if these sizes were requested; False if they are ``SIZES``.
        too_long: Requested sizes that would take longer than ``MAX_SECONDS``, each with its time in seconds.
    """

    sizes: tuple[Size, ...]
    asked: bool
    too_long: tuple[tuple[Size, float], ...] = ()

    @property
    def reason(self) -> str:
        """Sentences that state why requested sizes are not simulated; empty if all are simulated."""
        return " ".join(
            f"{size} is not simulated, because that would take {duration(seconds)} here (limit: "
            f"{duration(MAX_SECONDS)})."
            for size, seconds in self.too_long
        )

    def __str__(self) -> str:
        """Return sentences that state which sizes are simulated and why; empty if all requested sizes are."""
        if self.asked:
            return self.reason
        fits, cut = self.sizes
        why = f"{self.reason} In its place, the sizes are" if self.reason else "No size was given. The sizes are"
        return f"{why} {fits}, which most tiles divide, and {cut}, which no tile divides."


def simulable(sizes: Sequence[Size], variant_tiles: Iterable[VariantTile], dtype: str, target: str) -> Simulable:
    """Select the requested sizes that this machine can simulate within ``MAX_SECONDS`` seconds, with all kernels.

    If there are none, ``SIZES`` are selected. To estimate times, each kernel is simulated on a small product, unless
    all requested sizes are small.

    Args:
        sizes: Requested sizes; may be empty.
        variant_tiles: Kernels to simulate.
        dtype: Computation type.
        target: Target architecture.

    Raises:
        MissingDependencyError: If there is no C++ compiler.
    """
    if all(_work(size) <= _SMALL for size in sizes):
        return Simulable(tuple(sizes) or SIZES, bool(sizes))
    rates = _rates(variant_tiles, dtype, target)
    seconds = {size: sum(_work(size, tile) * rate for tile, rate in rates) for size in sizes}
    short = tuple(size for size in sizes if seconds[size] <= MAX_SECONDS)
    too_long = tuple((size, each) for size, each in seconds.items() if each > MAX_SECONDS)
    return Simulable(short or SIZES, bool(short), too_long)


def _work(size: Size, tile: tuple[int, int] = (1, 1)) -> int:
    """Return the number of multiply-adds that a kernel computes for a product, including those beyond C's edges.

    Args:
        size: Sizes of the product.
        tile: Rows and columns of C that a block of the kernel computes.
    """
    return -(-size.m // tile[0]) * -(-size.n // tile[1]) * tile[0] * tile[1] * size.k


def _rates(variant_tiles: Iterable[VariantTile], dtype: str, target: str) -> list[tuple[tuple[int, int], float]]:
    """Simulate each kernel on a small product, and return its speed on this machine.

    Returns:
        For each kernel, the rows and columns of C that a block computes, and the seconds per multiply-add. Kernels that
        cannot be simulated are left out.
    """
    compute, pilot = compute_element(dtype), SIZES[0]
    a, b = operands(pilot, compute, "NN")
    found = []
    for variant, tile in multiplying(variant_tiles, dtype, pilot):
        rows_and_columns = (1, 1)
        if variant != AUTO:
            if not find_variant(variant).simulated:
                continue
            config = kernel_spec(variant, tile=tile, dtype=dtype).kernel.config
            rows_and_columns = config.bm, config.bn
        try:
            _, report = run(
                a, b, variant=variant, tile=tile, dtype=dtype_of(compute), precision=precision_of(compute),
                target=target, counts=False, prints=False,
            )  # fmt: skip
        except (CompilationError, ConfigError):  # the simulation's own table will report it
            continue
        found.append((rows_and_columns, report.seconds / _work(pilot, rows_and_columns)))
    return found


def duration(seconds: float) -> str:
    """Return a time as text, in the largest unit of which there are 2 or more: ``"60 seconds"``, ``"5 minutes"``."""
    name, unit = next((each for each in _UNITS if seconds >= 2 * each[1]), _UNITS[-1])
    return f"{seconds / unit:,.0f} {name}"


_UNITS = (("years", 365.25 * 86400), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
