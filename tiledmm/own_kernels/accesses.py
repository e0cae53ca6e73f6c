"""Cost of each memory access of a kernel, and its ideal cost: the rows of a check's table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tiledmm.simulator.report.report import Report
from tiledmm.simulator.report.traffic import GlobalTraffic

_DIRECTIONS = ("global_load", "global_store", "shared_load", "shared_store", "copy_load", "copy_store")


@dataclass(frozen=True, slots=True)
class Access:
    """One load, store or copy of a source line.

    Attributes:
        location: File and line.
        text: The access as it is written: ``"A[row * K + k]"``; empty if it is unknown.
        space: ``"global"`` or ``"shared"``.
        kind: ``"load"``, ``"store"`` or ``"copy"`` (cp.async, which accesses both memories).
        requests: Number of instructions that warps executed.
        units: Sectors per request in global memory, wavefronts per request in shared memory.
        ideal: The same number for contiguous accesses, or without bank conflicts.
    """

    location: str
    text: str
    space: str
    kind: str
    requests: int
    units: float
    ideal: float


def accesses_of(report: Report) -> Iterator[Access]:
    """Yield the accesses of a launch in the order of the source.

    Args:
        report: Report of the launch, with counts.
    """
    for each in report.accesses:
        for direction in _DIRECTIONS:
            traffic = getattr(each.source, direction)
            if not traffic.requests:
                continue
            space, kind = direction.split("_")
            if space == "copy":
                space, kind = ("global" if kind == "load" else "shared"), "copy"
            if isinstance(traffic, GlobalTraffic):
                units, ideal = traffic.sectors, traffic.ideal_sectors
            else:
                units, ideal = traffic.wavefronts, traffic.ideal_wavefronts
            count = traffic.requests
            yield Access(each.location, each.text, space, kind, count, units / count, min(units, ideal) / count)
