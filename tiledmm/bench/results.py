"""Results of comparisons, as data."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.errors import ConfigError

#: The rival that every comparison has: its row's name.
BASELINE = "cupy.matmul"


@dataclass(frozen=True, slots=True)
class Row:
    """One rival in one comparison. Figures are None where there are none.

    Attributes:
        variant: Its name; ``"cupy.matmul"`` for the baseline.
        tile: Its tile, where it has one.
        ok: Whether the result was verified.
        error: Largest |C - R| / (|A| |B|) against float64; for integers and bool the fraction of wrong
            elements.
        microseconds: Device time of one call: the median of ``rounds``.
        tflops: 2 m n k (complex: 8 m n k) over that time, in TFLOP/s.
        gbps: Compulsory bytes, each operand read and C written once, over that time, in GB/s.
        of_roofline: Its rate as a fraction of the lower of two ceilings on this device, by its data sheet: the
            arithmetic of the units that multiply, and compulsory bytes at the memory's bandwidth.
        to_cupy: How many times as fast as ``cupy.matmul``: the median of the rounds' ratios.
        to_naive: How many times as fast as ``naive``, which takes part in few rounds: the ratio of the medians.
        registers: Registers of a thread.
        shared_bytes: Shared memory of a block.
        local_bytes: Local memory of a thread: 0 unless registers were spilled.
        occupancy: Warps resident on an SM, as a fraction of those it could hold.
        rounds: Microseconds of one call, round by round; None where it sat out.
        note: A remark, such as why there are no figures.
        peer: Whether it is another library's product, or the CPU's.
    """

    variant: str
    tile: int | None = None
    ok: bool = False
    error: float | None = None
    microseconds: float | None = None
    tflops: float | None = None
    gbps: float | None = None
    of_roofline: float | None = None
    to_cupy: float | None = None
    to_naive: float | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    occupancy: float | None = None
    rounds: tuple[float | None, ...] = ()
    note: str = ""
    peer: bool = False

    @property
    def label(self) -> str:
        """Variant and tile, as tables show them."""
        return VariantTile(self.variant, self.tile).label

    @property
    def ours(self) -> bool:
        """Whether it is a kernel of this package."""
        return not self.peer and self.variant != BASELINE

    def speed_over(self, other: Row) -> float | None:
        """How many times as fast as another row of the comparison: median of the shared rounds' ratios."""
        pairs = zip(self.rounds, other.rounds, strict=False)
        ratios = [theirs / mine for mine, theirs in pairs if mine and theirs]
        return statistics.median(ratios) if ratios else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rivals on one product.

    Attributes:
        m, n, k: Sizes.
        dtype: Type of the operands and the result.
        layout: How A and B lie in memory, a letter each: N rows contiguous, T columns contiguous, G neither.
        tolerance: Largest error that counts as right; 0 where results are exact.
        sets: Sets of operands in memory that calls take in turn, so that none finds its own in the L2 cache.
        rows: In ladder order, then the baseline, then peers.
    """

    m: int
    n: int
    k: int
    dtype: str
    layout: str
    tolerance: float
    sets: int
    rows: tuple[Row, ...]

    @property
    def size(self) -> Size:
        """The sizes together."""
        return Size(self.m, self.n, self.k)

    @property
    def title(self) -> str:
        """The product, in a line."""
        return f"{self.size}  {self.dtype}  {self.layout}"

    @property
    def ok(self) -> bool:
        """Whether every kernel of this package was right. The baseline and peers do not count."""
        return all(row.ok for row in self.rows if row.ours)

    def row(self, variant: str, tile: int | None = None) -> Row:
        """The row of a variant; its first if no tile is named.

        Raises:
            ConfigError: If there is none.
        """
        for row in self.rows:
            if row.variant == variant and tile in (None, row.tile):
                return row
        raise ConfigError(f"{VariantTile(variant, tile).label} is not in the comparison {self.title}")


@dataclass(frozen=True, slots=True)
class CallCost:
    """Host time of one small call.

    Attributes:
        name: The call.
        microseconds: Host time of one call, in a loop with one synchronization at its end: median of
            the rounds.
        time_to_cupy, time_to_launch: That over the cost of ``cupy.matmul``, and of a bare launch; medians of
            the rounds' ratios.
    """

    name: str
    microseconds: float
    time_to_cupy: float
    time_to_launch: float


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a report, and its software: versions as the libraries report them, empty if they do not."""

    gpu: str
    compute_capability: str
    sms: int
    l2_bytes: int
    memory_bytes: int
    max_clock_mhz: float
    driver: str
    cuda_driver: str
    cuda_runtime: str
    nvrtc: str
    cublas: str
    cupy: str
    numpy: str
    python: str
    tiledmm: str
    date: str

    def __str__(self) -> str:
        """In a line."""
        parts = [
            self.gpu,
            f"driver {self.driver}" if self.driver else f"driver for CUDA {self.cuda_driver}",
            f"CUDA {self.cuda_runtime}",
            f"cuBLAS {self.cublas}",
            f"CuPy {self.cupy}",
            f"tiledmm {self.tiledmm}",
            self.date[:10],
        ]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """One run.

    Attributes:
        machine: The machine.
        comparisons: Its comparisons, by device time.
        calls: Host time of small calls, if it was measured.
    """

    machine: Machine
    comparisons: tuple[Comparison, ...]
    calls: tuple[CallCost, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every kernel of this package was right."""
        return all(comparison.ok for comparison in self.comparisons)

    def find(self, size: Size, dtype: str, layout: str, *variant_tiles: VariantTile) -> Comparison:
        """The first comparison of this product that has all these variants and tiles.

        Raises:
            ConfigError: If there is none.
        """
        for found in self.comparisons:
            has = {(row.variant, row.tile) for row in found.rows}
            if (found.size, found.dtype, found.layout) == (size, dtype, layout) and has >= set(variant_tiles):
                return found
        labels = ", ".join(each.label for each in variant_tiles)
        raise ConfigError(f"the report has no comparison {size} {dtype} {layout} with {labels}")
