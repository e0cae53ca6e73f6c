"""What each access of a kernel to memory costs beside what it could cost, with a sentence that says why."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tiledmm.hardware.banks import SECTOR_BYTES
from tiledmm.own_kernels.launch_rule import Geometry
from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.execute.launch import Launch
from tiledmm.simulator.execute.settings import Settings
from tiledmm.simulator.report.events import events_of
from tiledmm.simulator.report.report import Report
from tiledmm.simulator.report.requests import WARP, Request, requests
from tiledmm.simulator.report.traffic import GlobalTraffic, SharedTraffic

_DIRECTIONS = ("global_load", "global_store", "shared_load", "shared_store", "copy_load", "copy_store")

# Below this share of excess, edges and the first elements of rows explain it.
_EXCESS = 1.25
# Accesses of each lane at one place in the code that are looked at.
_REPEATED = 4


@dataclass(frozen=True, slots=True)
class Access:
    """The accesses of one source line in one direction.

    Attributes:
        location: File and line.
        text: Text of the line.
        space: ``"global"`` or ``"shared"``.
        kind: ``"load"``, ``"store"`` or ``"copy"`` (cp.async).
        arrays: The arrays that it accesses.
        requests: Number of instructions that warps executed.
        units: Sectors per request in global memory, wavefronts per request in shared memory.
        ideal: The same for contiguous accesses, or without bank conflicts.
        sentences: What costs more than it could, and why; one per array.
    """

    location: str
    text: str
    space: str
    kind: str
    arrays: tuple[str, ...]
    requests: int
    units: float
    ideal: float
    sentences: tuple[str, ...]


def accesses_of(
    kernel: NativeKernel, arguments: Sequence[Any], geometry: Geometry, report: Report, settings: Settings
) -> tuple[Access, ...]:
    """Return the accesses of a kernel by source line, in the order of the lines.

    Args:
        kernel: The kernel.
        arguments: Arguments of a launch.
        geometry: Grid, block and shared memory.
        report: Report of that launch, with counts.
        settings: Settings of the simulator.
    """
    patterns = _patterns(kernel, arguments, geometry, settings)
    found = []
    for line in report.lines:
        for direction in _DIRECTIONS:
            space, kind = direction.split("_")
            traffic = getattr(line.source, direction)
            if not traffic.requests:
                continue
            kind, space = ("copy", "shared" if kind == "store" else "global") if space == "copy" else (kind, space)
            seen = patterns.get((line.line, kind, space), [])
            units, ideal = _units(traffic)
            found.append(
                Access(
                    line.location, line.text.strip(), space, kind,
                    tuple(dict.fromkeys(each.array for each in seen)), traffic.requests, units, min(units, ideal),
                    tuple(_sentences(space, kind, seen)),
                )
            )  # fmt: skip
    return tuple(found)


def _units(traffic: GlobalTraffic | SharedTraffic) -> tuple[float, float]:
    if isinstance(traffic, GlobalTraffic):
        return traffic.sectors / traffic.requests, traffic.ideal_sectors / traffic.requests
    return traffic.wavefronts / traffic.requests, traffic.ideal_wavefronts / traffic.requests


def _patterns(
    kernel: NativeKernel, arguments: Sequence[Any], geometry: Geometry, settings: Settings
) -> dict[tuple[int, str, str], list[Request]]:
    """Return the first block's first warp's requests by source line, kind and memory."""
    launch = Launch(kernel, geometry.grid, geometry.block, list(arguments), geometry.shared_bytes, False)
    traced = replace(settings, checks=True, counts=False, sass=None, traced_block=0, traced_times=_REPEATED, workers=1)
    outcome = launch.run(kernel, traced, None)
    width, height, _ = launch.block
    events = (
        (x + width * (y + height * z), event)
        for event in events_of(kernel, outcome, launch.placed, launch.block)
        for x, y, z in [event.thread]
    )
    found: dict[tuple[int, str, str], list[Request]] = defaultdict(list)
    for each in requests(events):
        found[each.line, each.kind, each.space].append(each)
    return found


def _sentences(space: str, kind: str, seen: Sequence[Request]) -> Iterator[str]:
    """Yield, for each array whose requests cost more than they could, what they cost and why."""
    by_array: dict[str, list[Request]] = defaultdict(list)
    for each in seen:
        by_array[each.array].append(each)
    unit = "sectors per request" if space == "global" else "wavefronts"
    for array, requests_of_array in by_array.items():
        worst = max(requests_of_array, key=lambda each: (each.units - each.ideal_units, len(each.lanes)))
        if worst.units > _EXCESS * max(worst.ideal_units, 1):
            why = _of_banks(worst) if space == "shared" else _of_addresses(worst, kind)
            yield f"{array}: {worst.units} {unit} where {max(worst.ideal_units, 1)} would do: {why}"


def _of_addresses(request: Request, kind: str) -> str:
    verb = {"load": "read", "store": "write", "copy": "copy from"}[kind]
    apart = _distance(request.addresses)
    if apart > request.bytes:
        return f"neighbouring lanes {verb} addresses {_bytes(apart)} apart (uncoalesced)"
    if apart == request.bytes and request.addresses[0] % SECTOR_BYTES:
        return f"a warp's first address is no multiple of {SECTOR_BYTES} bytes (misaligned)"
    return f"lanes {verb} {len(set(request.addresses))} addresses in {request.units} sectors (scattered)"


def _of_banks(request: Request) -> str:
    banks, lanes = len(request.banks), len(request.lanes)
    who = "all lanes hit" if lanes == WARP else f"{lanes} lanes hit"
    apart = _distance(request.addresses)
    stride = f", {_bytes(apart)} apart" if apart > request.bytes else ""
    return f"{who} {banks} bank{'s' if banks != 1 else ''}{stride} (bank conflict)"


def _distance(addresses: Iterable[int]) -> int:
    """Return the usual distance between the addresses of neighbouring lanes, other than 0, in bytes."""
    known = list(addresses)
    steps = Counter(abs(after - before) for before, after in itertools.pairwise(known) if after != before)
    return steps.most_common(1)[0][0] if steps else 0


def _bytes(count: int) -> str:
    return f"{count >> 10:,} KB" if count >= 1024 and count % 1024 == 0 else f"{count:,} bytes"
