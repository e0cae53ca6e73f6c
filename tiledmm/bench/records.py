"""What a comparison finds, as data: written to JSON, read back, and turned into tables elsewhere."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from tiledmm.elements import ELEMENTS, compute_element
from tiledmm.errors import ConfigError, UnsupportedTypeError
from tiledmm.registry.variants import find_variant, kernel_variants

#: The rival that every comparison has: its row's name.
BASELINE = "cupy.matmul"

#: Of a report as JSON.
REPORT_FORMAT = 1


class Size(NamedTuple):
    """Sizes of a product: A (m, k), B (k, n), C (m, n)."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        """As tables show it: ``"256 x 128 x 64"``."""
        return " x ".join(map(str, self))


def parse_size(text: str) -> Size:
    """``"4096"`` or, as MxNxK, ``"4096x1024x512"``.

    Raises:
        ConfigError: If it is neither, or a size is 0.
    """
    match = re.fullmatch(r"(\d+)(?:x(\d+)x(\d+))?", text.strip().lower())
    sizes = [int(number) for number in match.groups() if number] if match else []
    if not sizes or min(sizes) < 1:
        raise ConfigError(f"a size is N or MxNxK, each at least 1, like 4096 or 4096x1024x512; got {text!r}")
    return Size(*(sizes * 3)[:3])


class Rung(NamedTuple):
    """A variant with a tile; None where it has no tiles, and for ``"auto"``."""

    variant: str
    tile: int | None = None

    @property
    def label(self) -> str:
        """As tables show it: ``"tiled 32"``."""
        return self.variant if self.tile is None else f"{self.variant} {self.tile}"


def expand(variants: Iterable[str] | None = None, tiles: Iterable[int] | Literal["all"] | None = None) -> list[Rung]:
    """The rungs to compare, in ladder order, ``"auto"`` last.

    Args:
        variants: Names; None for all kernels of this package. ``"cublas"`` adds nothing: the baseline is in
            every comparison.
        tiles: Tiles of the variants that have any, ``"all"`` for all they have; None for each one's default.

    Raises:
        UnknownVariantError: If there is no such variant.
        ConfigError: If a tile fits none of them.
    """
    names = [row.name for row in kernel_variants()] if variants is None else list(variants)
    chosen = {find_variant(name).name for name in names if name != "auto"}
    rows = [row for row in kernel_variants() if row.name in chosen]
    fitting = {tile for row in rows for tile in row.tiles}
    wanted = None if tiles is None else sorted(fitting if tiles == "all" else set(tiles))
    for tile in wanted or ():
        if tile not in fitting:
            which = "no variant" if variants is None else f"none of {', '.join(row.name for row in rows)}"
            fits = ", ".join(map(str, sorted(fitting))) or "none"
            raise ConfigError(f"{which} has a tile {tile}; tiles are {fits}")
    rungs: list[Rung] = []
    for row in rows:
        if not row.tiles:
            rungs.append(Rung(row.name))
        else:
            kept = [row.default_tile] if wanted is None else [tile for tile in wanted if tile in row.tiles]
            rungs += [Rung(row.name, tile) for tile in kept]
    return rungs + ([Rung("auto")] if "auto" in names else [])


def multiplying(rungs: Iterable[Rung], dtype: str) -> list[Rung]:
    """Those rungs that multiply elements of a type.

    Raises:
        UnsupportedTypeError: If there is no such type, or none of them does.
    """
    kind = compute_element(dtype)
    every = list(rungs)
    found = [rung for rung in every if rung.variant == "auto" or find_variant(rung.variant).multiplies(kind)]
    if every and not found:
        names = dict.fromkeys(rung.variant for rung in every)
        has = dict.fromkeys(each for name in names for each in dict(find_variant(name).types) or ELEMENTS)
        raise UnsupportedTypeError(f"none of {', '.join(names)} multiplies {kind.dtype_name}, only {', '.join(has)}")
    return found


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
        to_cupy, to_naive: How many times as fast as ``cupy.matmul`` and as ``naive``: the median of the
            rounds' ratios.
        registers: Of a thread.
        shared_bytes: Of a block.
        local_bytes: Of a thread: 0 unless registers were spilled.
        occupancy: Warps resident on an SM, as a fraction of those it could hold.
        rounds: Microseconds of one call, round by round; None where it sat out.
        note: What else is to be said, such as why there are no figures.
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
        return Rung(self.variant, self.tile).label

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
        """What is compared, in a line."""
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
        raise ConfigError(f"{Rung(variant, tile).label} is not in the comparison {self.title}")


@dataclass(frozen=True, slots=True)
class Call:
    """What one small call costs its caller.

    Attributes:
        name: What was called.
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
    """Where and with what a report was made. Versions as the libraries report them, empty if they do not."""

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
class Report:
    """One run.

    Attributes:
        machine: Where.
        comparisons: What it found, on the device.
        calls: What small calls cost on the host, if that was measured.
    """

    machine: Machine
    comparisons: tuple[Comparison, ...]
    calls: tuple[Call, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every kernel of this package was right."""
        return all(comparison.ok for comparison in self.comparisons)

    def find(self, size: Size, dtype: str, layout: str, *rungs: Rung) -> Comparison:
        """The first comparison of this product that has all these rungs.

        Raises:
            ConfigError: If there is none.
        """
        for found in self.comparisons:
            has = {(row.variant, row.tile) for row in found.rows}
            if (found.size, found.dtype, found.layout) == (size, dtype, layout) and has >= set(rungs):
                return found
        labels = ", ".join(rung.label for rung in rungs)
        raise ConfigError(f"the report has no comparison {size} {dtype} {layout} with {labels}")


def to_json(report: Report) -> str:
    """A report as JSON text."""
    return json_text({"format": REPORT_FORMAT, **asdict(report)})


def json_text(data: dict[str, Any]) -> str:
    """Data as JSON text, indented."""
    text = json.dumps(data, indent=1, allow_nan=False)
    # The rounds of a row on one line: what one scrolls past.
    return re.sub(r"\[[\d.,\snule-]*\]", lambda found: re.sub(r"\s+", " ", found[0]), text) + "\n"


def from_json(text: str) -> Report:
    """The report that ``to_json`` wrote.

    Raises:
        ConfigError: If it is of another format.
    """
    data: dict[str, Any] = json.loads(text)
    if data.get("format") != REPORT_FORMAT:
        raise ConfigError(f"these results have format {data.get('format')!r}, not {REPORT_FORMAT}: measure again")
    comparisons = []
    for item in data["comparisons"]:
        rows = tuple(Row(**{**row, "rounds": tuple(row["rounds"])}) for row in item["rows"])
        comparisons.append(Comparison(**{**item, "rows": rows}))
    calls = tuple(Call(**call) for call in data["calls"])
    return Report(Machine(**data["machine"]), tuple(comparisons), calls)
