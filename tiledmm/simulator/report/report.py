"""Reports: counts of a simulated launch, by Nsight Compute's names, and its findings, as data, table and listing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tiledmm.errors import SimulationError
from tiledmm.simulator.check.findings import Finding, describe_findings
from tiledmm.simulator.report.tables import NONE, Table
from tiledmm.simulator.report.traffic import AccessCounts, LineCounts, Traffic, access_counts, line_counts, total

if TYPE_CHECKING:
    from typing_extensions import Self

    from tiledmm.simulator.build.native_kernel import NativeKernel
    from tiledmm.simulator.execute.grid import Outcome

_COLUMNS = (
    "FLOP", "global requests", "sectors", "sectors/request", "shared loads", "shared stores", "wavefronts",
    "conflicts", "barriers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """Counts and findings of a simulated kernel. No value is a time on a GPU.

    Attributes:
        symbol: Name of the kernel.
        target: The target architecture: ``"sm_90"``.
        grid, block: Number of blocks, and of threads per block, along x, y and z.
        findings: Errors in the kernel; empty if there are none.
        warnings: Findings that are not errors on a GPU.
        barriers: Number of barriers at which blocks waited, summed over all blocks.
        flops: Floating-point operations, written with operators (``sum += a * b``) or as intrinsics; a multiply-add
            counts as two, a division or square root as one. Integer operations do not count. Operators are counted
            after the C++ compiler's optimization, which computes equal products once.
        source: Memory traffic of the accesses in the source.
        sass: Memory traffic of the accesses in the machine code (SASS) of ``target``; None if it was not counted.
        lines: Counts by source line, for lines with any counts.
        text: The kernel's source.
        locations: File and line that each line of ``text`` comes from: ``"tiled.cu.j2:57"``.
        seconds: Time that the simulation took, in seconds.
        output: Text that the kernel printed by ``printf``, up to about 1 MiB as on a GPU. ``launch``, ``run`` and raw
            kernels also write it to ``sys.stdout``.
        page: Line of ``text`` where the kernel's own source begins, after the headers.
        accesses: Counts by access: one for each load, store and copy of a line.
        phases: Number of phases of mbarriers that completed, over all blocks.
    """

    symbol: str
    target: str
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
    output: str = ""
    warnings: tuple[Finding, ...] = ()
    page: int = 1
    accesses: tuple[AccessCounts, ...] = ()
    phases: int = 0

    @classmethod
    def of(
        cls,
        kernel: NativeKernel,
        outcomes: Sequence[Outcome],
        found: Sequence[Finding],
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        sass: bool,
        **more: Any,
    ) -> Self:
        """Return the report of a kernel's runs: counts, findings and warnings.

        Args:
            kernel: The kernel.
            outcomes: Outcomes of its runs, whose counts are added.
            found: Findings and warnings.
            grid, block: Number of blocks, and of threads per block, along x, y and z.
            sass: Whether the accesses of the machine code were counted.
            **more: Values of other attributes, or of attributes to override.
        """
        counts = line_counts(kernel, outcomes, sass=sass)
        known = {
            "barriers": sum(each.barriers for each in outcomes),
            "seconds": sum(each.seconds for each in outcomes),
            "output": "".join(each.output for each in outcomes),
        }
        return cls(
            symbol=kernel.title,
            target=kernel.target.name,
            grid=grid,
            block=block,
            findings=tuple(each for each in found if not each.is_warning),
            warnings=tuple(each for each in found if each.is_warning),
            flops=sum(each.flops for each in counts),
            phases=sum(each.phases for each in counts),
            source=total(each.source for each in counts),
            sass=total(each.sass or Traffic() for each in counts) if sass else None,
            lines=counts,
            text="\n".join(kernel.places.written) or kernel.text,
            locations=kernel.places.locations,
            page=kernel.places.page,
            accesses=access_counts(kernel, outcomes, sass=sass),
            **known | more,
        )

    @property
    def ok(self) -> bool:
        """Whether there are no findings; warnings do not count."""
        return not self.findings

    @property
    def global_bytes(self) -> int:
        """Bytes that the threads, and their copies, load from and store to global memory."""
        traffic = self.source
        loads = traffic.global_load.bytes + traffic.copy_load.bytes + traffic.bulk_load.bytes
        return loads + traffic.global_store.bytes + traffic.bulk_store.bytes

    def check(self) -> None:
        """Raise SimulationError if there are findings. The message contains all of them."""
        if self.findings:
            raise SimulationError(describe_findings(self.symbol, self.findings))

    def __str__(self) -> str:
        """Return the table, with findings and warnings below it."""
        return str(self.table())

    def json(self) -> str:
        """Return a JSON object with all attributes, and with values computed from them, as a string."""
        known = asdict(self) | self._derived()
        return json.dumps(known, indent=1)

    def table(self) -> Table:
        """Return a table of totals and counts by source line, with findings below it.

        Its method ``rich`` formats the table for a terminal, its method ``markdown`` for a page.
        """
        return _table(self)

    def listing(self, *, headers: bool = False) -> str:
        """Return the kernel's source with counts before each line, and findings and warnings below it.

        Args:
            headers: Whether the headers before the kernel's own source are also shown.
        """
        return _listing(self, headers=headers)

    def _derived(self) -> dict[str, object]:
        """Return figures that follow from the attributes, by name, for ``json``."""
        return {"ok": self.ok, "global_bytes": self.global_bytes, "nsight": (self.sass or self.source).nsight()}

    def _size(self) -> str:
        """Return the size of the problem for the table's title; empty here, and overridden by reports of products."""
        return ""

    def _figures(self) -> tuple[str, ...]:
        """Return sentences to show below the table; none here, and overridden by reports of products."""
        return ()


def _table(report: Report) -> Table:
    """Return a table with the totals of a report, and the counts of each source line."""
    rows = [("all", *_cells(report.flops, report.barriers, report.sass or report.source), "")]
    for each in report.lines:
        rows.append(
            (each.location if each.line else NONE, *_cells(each.flops, each.barriers, _view(each)), each.text.strip())
        )
    view = f"machine code of {report.target}" if report.sass else "source"
    notes = (
        *report._figures(),
        *_asynchronous(report),
        f"Counts of all blocks, with accesses as in the {view}. They are not times: nothing was measured on a GPU.",
        *_messages(report),
    )
    return Table(
        title=f"{report.symbol}  {report._size()}grid {_index(report.grid)}, block {_index(report.block)}",
        columns=("<line", *_COLUMNS, "<source"),
        rows=tuple(rows),
        notes=notes,
        bad=frozenset(
            i
            for i, each in enumerate(report.lines, start=1)
            if any(each.line in (found.line, found.other_line, *found.also) for found in report.findings)
        ),
    )


def _asynchronous(report: Report) -> tuple[str, ...]:
    """Return a sentence about a report's bulk copies, mbarriers and wgmma; none if there are none."""
    traffic = report.sass or report.source
    loads, stores, wgmma = traffic.bulk_load, traffic.bulk_store, traffic.wgmma
    said = []
    for copies, way in ((loads, "to"), (stores, "from")):
        if copies.requests:
            said.append(f"{copies.requests:,} bulk copies move {copies.bytes:,} bytes {way} shared memory")
    if wgmma.requests:
        operands = f"{wgmma.bytes:,} bytes of operands in {wgmma.wavefronts:,} wavefronts"
        said.append(f"{wgmma.requests:,} wgmma of warps read {operands}")
    if report.phases:
        said.append(f"{report.phases:,} phases of mbarriers complete")
    return ("; ".join(said) + ".",) if said else ()


def _listing(report: Report, *, headers: bool) -> str:
    """Return the source of a report's kernel, with FLOP, sectors and wavefronts before each line that has any."""
    counts = {each.line: each for each in report.lines}
    wrong = {line for found in report.findings for line in (found.line, found.other_line) if line}
    first = 1 if headers else report.page
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
    messages = _messages(report)
    return "\n".join([*shown, *([""] if messages else []), *messages])


def _messages(report: Report) -> tuple[str, ...]:
    """Return the messages of a report's findings, then those of its warnings."""
    return (*(each.message for each in report.findings), *(f"Warning: {each.message}" for each in report.warnings))


def _view(line: LineCounts) -> Traffic:
    return line.sass if line.sass is not None else line.source


def _cells(flops: int, barriers: int, traffic: Traffic) -> tuple[str, ...]:
    requests = traffic.global_load.requests + traffic.global_store.requests + traffic.copy_load.requests
    requests += traffic.bulk_load.requests + traffic.bulk_store.requests
    sectors = _sectors(traffic)
    return (
        _count(flops),
        _count(requests),
        _count(sectors),
        f"{sectors / requests:#.3g}" if requests else NONE,
        _count(traffic.shared_load.requests),
        _count(traffic.shared_store.requests),
        _count(_wavefronts(traffic)),
        f"{_conflicts(traffic):,}" if traffic.shared_load.requests or traffic.shared_store.requests else NONE,
        _count(barriers),
    )


def _sectors(traffic: Traffic) -> int:
    bulk = traffic.bulk_load.sectors + traffic.bulk_store.sectors
    return traffic.global_load.sectors + traffic.global_store.sectors + traffic.copy_load.sectors + bulk


def _wavefronts(traffic: Traffic) -> int:
    return traffic.shared_load.wavefronts + traffic.shared_store.wavefronts + traffic.wgmma.wavefronts


def _conflicts(traffic: Traffic) -> int:
    return traffic.shared_load.bank_conflicts + traffic.shared_store.bank_conflicts


def _count(number: int) -> str:
    return f"{number:,}" if number else NONE


def _index(index: tuple[int, int, int]) -> str:
    return " x ".join(map(str, index if index[2] > 1 else index[:2]))
