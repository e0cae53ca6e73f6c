"""Results of comparisons: data classes, and their conversion to and from JSON."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from typing import Any

from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.errors import ConfigError
from tiledmm.report.documents import json_text

#: Name of the row of ``cupy.matmul``, which is in every comparison.
BASELINE = "cupy.matmul"

#: Version of the JSON format of reports.
REPORT_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Row:
    """Results of one rival on one product. Unknown values are None.

    Attributes:
        variant: Name of the rival: a variant, ``"cupy.matmul"`` for the baseline, or a peer.
        tile: Tile; None for rivals without tiles.
        ok: True if the result is correct.
        error: Maximum of |C - R| / (|A| |B|), where R is the product in float64; for integers and bool the fraction of
            wrong elements.
        microseconds: Device time of one call, in microseconds: the median of ``rounds``.
        tflops: Rate in TFLOP/s: 2 m n k (complex: 8 m n k) per time.
        gbps: Compulsory bytes (each operand read and C written once) per time, in GB/s.
        of_roofline: Rate as a fraction of the lower of two ceilings, by the device's data sheet: the peak of the units
            that multiply, and the compulsory bytes at the bandwidth of memory.
        to_cupy: Speedup over ``cupy.matmul``: the median of the rounds' ratios.
        to_naive: Speedup over ``naive``: the ratio of the medians, because ``naive`` is in few rounds.
        registers: 32-bit registers per thread.
        shared_bytes: Shared memory per block, in bytes.
        local_bytes: Local memory per thread, in bytes; 0 unless registers were spilled.
        occupancy: Resident warps as a fraction of the maximum per SM.
        rounds: Time of one call in each round, in microseconds; None for a round without this rival.
        note: Remark, such as the reason for missing values.
        peer: True for the product of another library or of the CPU.
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
        """Name of the rival in tables, with its tile: ``"tiled 32"``."""
        return VariantTile(self.variant, self.tile).label

    @property
    def ours(self) -> bool:
        """Whether the rival is a kernel of this package."""
        return not self.peer and self.variant != BASELINE

    def speed_over(self, other: Row) -> float | None:
        """Return how many times as fast this rival is as another one; None if they were not timed in the same rounds.

        It is the median, over the rounds with both rivals, of the other's time divided by this one's.
        """
        pairs = zip(self.rounds, other.rounds, strict=False)
        ratios = [theirs / mine for mine, theirs in pairs if mine and theirs]
        return statistics.median(ratios) if ratios else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results of all rivals on one product.

    Attributes:
        m, n, k: Sizes.
        dtype: Type of the operands and the result.
        layout: One letter per operand, A then B: N for contiguous rows, T for contiguous columns, G for neither.
        tolerance: Largest error that counts as right; 0 if results are exact.
        sets: Number of sets of operands. Calls use them in turn, so that no call finds its operands in the L2 cache.
        rows: Results in ladder order, then the baseline, then peers.
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
        """Sizes m, n and k of the product."""
        return Size(self.m, self.n, self.k)

    @property
    def title(self) -> str:
        """Description of the product in one line: ``"256 x 256 x 256  float32  NN"``."""
        return f"{self.size}  {self.dtype}  {self.layout}"

    @property
    def ok(self) -> bool:
        """Whether the results of all kernels of this package are right. The baseline and peers do not count."""
        return all(row.ok for row in self.rows if row.ours)

    def row(self, variant: str, tile: int | None = None) -> Row:
        """Return the row of a variant with a tile; if ``tile`` is None, the first row of the variant.

        Raises:
            ConfigError: If the variant was not compared, or not with this tile.
        """
        for row in self.rows:
            if row.variant == variant and tile in (None, row.tile):
                return row
        raise ConfigError(f"{VariantTile(variant, tile).label} is not in the comparison {self.title}")


@dataclass(frozen=True, slots=True)
class CallCost:
    """Host time of one small call.

    Attributes:
        name: Name of the call.
        microseconds: Host time of one call, in microseconds, from a loop of calls with one synchronization at the end:
            the median of the rounds.
        time_to_cupy, time_to_launch: Ratios of this time to those of ``cupy.matmul`` and of a bare launch: the medians
            of the rounds' ratios.
    """

    name: str
    microseconds: float
    time_to_cupy: float
    time_to_launch: float


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPU and software of a report. Versions are those that the libraries report, or empty.

    Attributes:
        gpu: Name of the GPU.
        compute_capability: Compute capability: ``"9.0"``.
        sms: Number of SMs.
        l2_bytes, memory_bytes: Size of the L2 cache and of device memory, in bytes.
        max_clock_mhz: Boost clock of the SMs, in MHz.
        driver, cuda_driver: Version of the driver, and of the newest CUDA that it supports.
        cuda_runtime, nvrtc, cublas, cupy, numpy, python, tiledmm: Versions.
        date: Date and time of the report, in UTC.
    """

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
        """Return the GPU, the main versions and the date in one line."""
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
    """Report of one run of comparisons.

    Attributes:
        machine: GPU and software.
        comparisons: Comparisons by device time.
        calls: Host time of small calls; empty if it was not measured.
    """

    machine: Machine
    comparisons: tuple[Comparison, ...]
    calls: tuple[CallCost, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the results of all kernels of this package are right, in all comparisons."""
        return all(comparison.ok for comparison in self.comparisons)

    def find(self, size: Size, dtype: str, layout: str, *variant_tiles: VariantTile) -> Comparison:
        """Return the first comparison of a product that has rows for all given variants and tiles.

        Raises:
            ConfigError: If there is no such comparison.
        """
        for found in self.comparisons:
            has = {(row.variant, row.tile) for row in found.rows}
            if (found.size, found.dtype, found.layout) == (size, dtype, layout) and has >= set(variant_tiles):
                return found
        labels = ", ".join(each.label for each in variant_tiles)
        raise ConfigError(f"the report has no comparison {size} {dtype} {layout} with {labels}")


def to_json(report: ComparisonReport) -> str:
    """Format a report as JSON text, which ``from_json`` reads."""
    return json_text({"format": REPORT_FORMAT, **asdict(report)})


def from_json(text: str) -> ComparisonReport:
    """Return the report that ``to_json`` converted to JSON.

    Raises:
        ConfigError: If ``text`` has another version of the format.
    """
    data: dict[str, Any] = json.loads(text)
    if data.get("format") != REPORT_FORMAT:
        raise ConfigError(
            f"the results have format {data.get('format')!r}, and {REPORT_FORMAT} was expected: measure again"
        )
    comparisons = []
    for item in data["comparisons"]:
        rows = tuple(Row(**{**row, "rounds": tuple(row["rounds"])}) for row in item["rows"])
        comparisons.append(Comparison(**{**item, "rows": rows}))
    calls = tuple(CallCost(**call) for call in data["calls"])
    return ComparisonReport(Machine(**data["machine"]), tuple(comparisons), calls)
