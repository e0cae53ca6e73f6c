"""Figures of a kernel by name: what students predict, and what targets limit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from tiledmm.course.exercise import Figure
from tiledmm.errors import ConfigError
from tiledmm.own_kernels.accesses import Access
from tiledmm.own_kernels.check_report import KernelReport
from tiledmm.own_kernels.compiled import Compiled

_WARP = 32


def figure_of(figure: Figure, report: KernelReport) -> float:
    """Return the value of a figure at the first sizes of a check.

    Raises:
        ConfigError: If it needs NVRTC, which is not installed.
    """
    return FIGURES[figure.name](report, figure.at)


def _accesses(report: KernelReport, at: str, space: str = "") -> Iterator[Access]:
    """Yield the accesses that match, of one space of memory if that is given.

    An access whose source text is unknown matches by its kind, so that no way to write a line hides an access.
    """
    kind = at.partition(" ")[0]
    for each in report.accesses:
        matches = re.search(at, f"{each.kind} {each.text}") if each.text else kind in ("", each.kind)
        if matches and (not space or each.space == space):
            yield each


def _per_request(space: str) -> Callable[[KernelReport, str], float]:
    def most(report: KernelReport, at: str) -> float:
        return max((each.units for each in _accesses(report, at, space)), default=0.0)

    return most


def _conflicts(report: KernelReport, at: str) -> float:
    return max((each.units - each.ideal for each in _accesses(report, at, "shared")), default=0.0)


def _requests(space: str, kinds: tuple[str, ...]) -> Callable[[KernelReport, str], float]:
    def total(report: KernelReport, at: str) -> float:
        return sum(each.requests for each in _accesses(report, at, space) if each.kind in kinds)

    return total


def _per_multiply_add(space: str) -> Callable[[KernelReport, str], float]:
    loads = _requests(space, ("load", "copy") if space == "global" else ("load",))

    def ratio(report: KernelReport, at: str) -> float:
        return loads(report, at) * _WARP / math.prod(report.trials[0].sizes.values())

    return ratio


def _blocks(report: KernelReport, at: str) -> float:
    return math.prod(report.trials[0].report.grid)


def _warps(report: KernelReport, at: str) -> float:
    return -(-math.prod(report.trials[0].report.block) // _WARP)


def _barriers(report: KernelReport, at: str) -> float:
    lines = report.trials[0].report.lines
    return sum(each.barriers for each in lines if re.search(at, each.text)) / _blocks(report, at)


def _on_tensor_cores(report: KernelReport, at: str) -> float:
    """Return the floating-point operations of lines that multiply tiles by an instruction of a warp."""
    lines = report.trials[0].report.lines
    return sum(each.flops for each in lines if re.search(r"\bmma[._]sync\b", each.text.partition("//")[0]))


def _resource(value: Callable[[Compiled], float]) -> Callable[[KernelReport, str], float]:
    def found(report: KernelReport, at: str) -> float:
        if report.compiled is None:
            raise ConfigError(f"registers and occupancy are unknown: {report.unknown}")
        return value(report.compiled)

    return found


#: Functions ``(report, accesses) -> value`` by the names of figures.
FIGURES: dict[str, Callable[[KernelReport, str], float]] = {
    "sectors per request": _per_request("global"),
    "wavefronts per request": _per_request("shared"),
    "bank conflicts per request": _conflicts,
    "global load requests": _requests("global", ("load", "copy")),
    "global store requests": _requests("global", ("store",)),
    "shared load requests": _requests("shared", ("load",)),
    "shared store requests": _requests("shared", ("store", "copy")),
    "global loads per multiply-add": _per_multiply_add("global"),
    "shared loads per multiply-add": _per_multiply_add("shared"),
    "asynchronous copies": _requests("global", ("copy",)),
    "barriers per block": _barriers,
    "blocks": _blocks,
    "warps per block": _warps,
    "operations on tensor cores": _on_tensor_cores,
    "operations": lambda report, at: float(report.trials[0].report.flops),
    "registers per thread": _resource(lambda each: each.registers),
    "bytes of spills per thread": _resource(lambda each: each.spill_bytes),
    "shared bytes per block": _resource(lambda each: each.shared_bytes),
    "blocks per SM": _resource(lambda each: each.blocks),
    "occupancy in percent": _resource(lambda each: 100 * each.occupancy),
}
