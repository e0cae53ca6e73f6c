"""A report as a table, and as a listing of the source with counts beside it."""

from __future__ import annotations

from tiledmm.codegen.page import first_line_of_page
from tiledmm.report.cells import NONE, significant
from tiledmm.report.tables import Table
from tiledmm.simulator.report import LineCounts, Report, Traffic

_COLUMNS = (
    "FLOP", "global requests", "sectors", "sectors/request", "shared loads", "shared stores", "wavefronts",
    "conflicts", "barriers",
)  # fmt: skip


def report_table(report: Report) -> Table:
    """The totals of a report, and each line that did something."""
    m, n, k, products = report.sizes
    size = f"{m} x {n} x {k}" + (f", {products} products" if products != 1 else "")
    rows = [("all", *_cells(report.flops, report.barriers, report.machine or report.source), "")]
    for each in report.lines:
        rows.append((str(each.line or NONE), *_cells(each.flops, each.barriers, _view(each)), each.text.strip()))
    view = f"machine code of {report.target}" if report.machine else "source"
    notes = (
        f"{report.intensity:.3g} FLOP for each byte asked of global memory; each element loaded is multiplied "
        f"{report.reuse:.3g} times.",
        f"Accesses as the {view} has them. Counts, not times: nothing here was measured on a GPU.",
        *(finding.message for finding in report.findings),
    )
    return Table(
        title=f"{report.symbol}  {size}  grid {_index(report.grid)}, block {_index(report.block)}",
        columns=("line", *_COLUMNS, "<source"),
        rows=tuple(rows),
        notes=notes,
        bad=frozenset(
            i
            for i, each in enumerate(report.lines, start=1)
            if any(each.line in (found.line, found.other_line) for found in report.findings)
        ),
    )


def listing(report: Report, *, headers: bool) -> str:
    """The source of a report's kernel, with FLOP, sectors and wavefronts in front of the lines that have any."""
    counts = {each.line: each for each in report.lines}
    wrong = {line for found in report.findings for line in (found.line, found.other_line) if line}
    first = 1 if headers else first_line_of_page(report.text)
    lines = report.text.splitlines()
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
        shown.append(" ".join(f"{cell:>12}" for cell in cells) + f" {mark} {number:4} | {lines[number - 1]}".rstrip())
    return "\n".join(shown)


def _view(line: LineCounts) -> Traffic:
    return line.machine if line.machine is not None else line.source


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
