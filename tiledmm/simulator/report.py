"""What a simulated launch did, by Nsight Compute's names, and its findings: as data, as a table and as a listing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tiledmm.codegen.page import first_line_of_page
from tiledmm.errors import SimulationError
from tiledmm.report.tables import NONE, Table, significant
from tiledmm.simulator.findings import Finding, describe_findings
from tiledmm.simulator.traffic import LineCounts, Traffic

_COLUMNS = (
    "FLOP", "global requests", "sectors", "sectors/request", "shared loads", "shared stores", "wavefronts",
    "conflicts", "barriers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """What a simulated product did. Nothing in it is a time on a GPU.

    Attributes:
        symbol: The kernel.
        target: What was simulated: ``"sm_90"``.
        sizes: m, n, k as the kernel had them, and the number of products.
        element_bytes: Of an element of A.
        grid, block: Blocks, and threads of a block, along x, y and z.
        findings: What is wrong; empty if nothing is.
        barriers: Barriers of a block, over all blocks.
        flops: Floating-point operations made by the kernel's intrinsics; a fused multiply-add is two. Zero for
            integers, and for arithmetic that is written with operators.
        source: Traffic as the source has it.
        sass: Traffic as the machine code (SASS) of ``target`` has it; None if it was not asked for.
        lines: The same by line, those that did something.
        text: The kernel's source.
        locations: File and line that each line of ``text`` comes from: ``"tiled.cu.j2:57"``.
        seconds: How long the simulation took.
    """

    symbol: str
    target: str
    sizes: tuple[int, int, int, int]
    element_bytes: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    findings: tuple[Finding, ...]
    barriers: int
    flops: int
    source: Traffic
    sass: Traffic | None
    lines: tuple[LineCounts, ...]
    text: str
    locations: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds that the product needs: m * n * k for each."""
        m, n, k, products = self.sizes
        return m * n * k * products

    @property
    def global_bytes(self) -> int:
        """Bytes that the threads asked of global memory, or gave to it."""
        traffic = self.source
        return traffic.global_load.bytes + traffic.copy_load.bytes + traffic.global_store.bytes

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: operations of the product (two a multiply-add) for each byte of ``global_bytes``."""
        return 2 * self.multiply_adds / self.global_bytes if self.global_bytes else 0.0

    @property
    def reuse(self) -> float:
        """Times that an element loaded from global memory is multiplied: both factors of each multiply-add count."""
        loaded = self.source.global_load.bytes + self.source.copy_load.bytes  # a lane may load several at once
        return 2 * self.multiply_adds * self.element_bytes / loaded if loaded else 0.0

    def check(self) -> None:
        """Raises SimulationError if something is wrong; the message has every finding."""
        if self.findings:
            raise SimulationError(describe_findings(self.symbol, self.findings))

    def json(self) -> str:
        """All of it, as JSON; the derived figures included."""
        known = asdict(self) | {
            "ok": self.ok,
            "multiply_adds": self.multiply_adds,
            "global_bytes": self.global_bytes,
            "intensity": self.intensity,
            "reuse": self.reuse,
            "nsight": (self.sass or self.source).nsight(),
        }
        return json.dumps(known, indent=1)

    def table(self) -> Table:
        """The totals, and each line that did something: ``.rich()`` for a terminal, ``.markdown()`` for a page."""
        return _table(self)

    def listing(self, *, headers: bool = False) -> str:
        """The source with its counts beside it.

        Args:
            headers: Whether the part before the kernel's own page is shown, too.
        """
        return _listing(self, headers=headers)


def _table(report: Report) -> Table:
    """The totals of a report, and each line that did something."""
    m, n, k, products = report.sizes
    size = f"{m} x {n} x {k}" + (f", {products} products" if products != 1 else "")
    rows = [("all", *_cells(report.flops, report.barriers, report.sass or report.source), "")]
    for each in report.lines:
        rows.append(
            (each.location if each.line else NONE, *_cells(each.flops, each.barriers, _view(each)), each.text.strip())
        )
    view = f"machine code of {report.target}" if report.sass else "source"
    notes = (
        f"{report.intensity:.3g} FLOP for each byte asked of global memory; each element loaded is multiplied "
        f"{report.reuse:.3g} times.",
        f"Accesses as the {view} has them. Counts, not times: nothing here was measured on a GPU.",
        *(finding.message for finding in report.findings),
    )
    return Table(
        title=f"{report.symbol}  {size}  grid {_index(report.grid)}, block {_index(report.block)}",
        columns=("<line", *_COLUMNS, "<source"),
        rows=tuple(rows),
        notes=notes,
        bad=frozenset(
            i
            for i, each in enumerate(report.lines, start=1)
            if any(each.line in (found.line, found.other_line) for found in report.findings)
        ),
    )


def _listing(report: Report, *, headers: bool) -> str:
    """The source of a report's kernel, with FLOP, sectors and wavefronts in front of the lines that have any."""
    counts = {each.line: each for each in report.lines}
    wrong = {line for found in report.findings for line in (found.line, found.other_line) if line}
    first = 1 if headers else first_line_of_page(report.text)
    lines = report.text.splitlines()
    locations = [location if text.strip() else "" for location, text in zip(report.locations, lines, strict=True)]
    width = max(map(len, locations[first - 1 :]), default=0)
    shown = [f"{'FLOP':>12} {'sectors':>12} {'wavefronts':>12} {'conflicts':>12}   line"]
    for number in range(first, len(lines) + 1):
        cells = [""] * 4
        if each := counts.get(number):
            traffic = _view(each)
            cells = [
                _count(each.flops),
                _count(_sectors(traffic)),
                _count(_wavefronts(traffic)),
                _count(_conflicts(traffic)),
            ]
        mark = ">" if number in wrong else " "
        source = f"{locations[number - 1]:{width}} | {lines[number - 1]}"
        shown.append(" ".join(f"{cell:>12}" for cell in cells) + f" {mark} {source}".rstrip())
    return "\n".join(shown)


def _view(line: LineCounts) -> Traffic:
    return line.sass if line.sass is not None else line.source


def _cells(flops: int, barriers: int, traffic: Traffic) -> tuple[str, ...]:
    requests = traffic.global_load.requests + traffic.global_store.requests + traffic.copy_load.requests
    sectors = _sectors(traffic)
    return (
        _count(flops),
        _count(requests),
        _count(sectors),
        significant(sectors / requests) if requests else NONE,
        _count(traffic.shared_load.requests),
        _count(traffic.shared_store.requests),
        _count(_wavefronts(traffic)),
        f"{_conflicts(traffic):,}" if traffic.shared_load.requests or traffic.shared_store.requests else NONE,
        _count(barriers),
    )


def _sectors(traffic: Traffic) -> int:
    return traffic.global_load.sectors + traffic.global_store.sectors + traffic.copy_load.sectors


def _wavefronts(traffic: Traffic) -> int:
    return traffic.shared_load.wavefronts + traffic.shared_store.wavefronts


def _conflicts(traffic: Traffic) -> int:
    return traffic.shared_load.bank_conflicts + traffic.shared_store.bank_conflicts


def _count(number: int) -> str:
    return f"{number:,}" if number else NONE


def _index(index: tuple[int, int, int]) -> str:
    return " x ".join(map(str, index if index[2] > 1 else index[:2]))
