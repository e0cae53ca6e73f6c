"""Memory traffic of a simulated kernel by source line, with Nsight Compute's names for what is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tiledmm.simulator.execution import RawSite


@dataclass(frozen=True, slots=True)
class SharedTraffic:
    """Accesses of warps to shared memory.

    Attributes:
        requests: Instructions that a warp made.
        lanes: Threads that took part, over all requests.
        bytes: What these threads moved.
        wavefronts: Times that shared memory had to answer: each of its 32 banks delivers one word a time.
        ideal_wavefronts: The same, had no two words lain in one bank.
    """

    requests: int = 0
    lanes: int = 0
    bytes: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts beyond the ideal."""
        return self.wavefronts - self.ideal_wavefronts

    def __add__(self, other: SharedTraffic) -> SharedTraffic:
        return _sum(self, other)


@dataclass(frozen=True, slots=True)
class GlobalTraffic:
    """Accesses of warps to global memory, as L1 sees them.

    Attributes:
        requests: Instructions that a warp made.
        lanes: Threads that took part, over all requests.
        bytes: What these threads moved.
        sectors: Stretches of 32 bytes that the requests touch.
        ideal_sectors: The fewest that could hold the bytes of each request, had no two threads asked for the same.
    """

    requests: int = 0
    lanes: int = 0
    bytes: int = 0
    sectors: int = 0
    ideal_sectors: int = 0

    @property
    def sectors_per_request(self) -> float:
        """Sectors for each request; 0 without requests."""
        return self.sectors / self.requests if self.requests else 0.0

    def __add__(self, other: GlobalTraffic) -> GlobalTraffic:
        return _sum(self, other)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Memory traffic, by memory and direction.

    Attributes:
        global_load, global_store: Loads from and stores to global memory.
        shared_load, shared_store: Loads from and stores to shared memory.
        copy_load, copy_store: Copies by cp.async, as seen from the one memory and the other.
    """

    global_load: GlobalTraffic = GlobalTraffic()
    global_store: GlobalTraffic = GlobalTraffic()
    shared_load: SharedTraffic = SharedTraffic()
    shared_store: SharedTraffic = SharedTraffic()
    copy_load: GlobalTraffic = GlobalTraffic()
    copy_store: SharedTraffic = SharedTraffic()

    def __add__(self, other: Traffic) -> Traffic:
        return _sum(self, other)

    def __bool__(self) -> bool:
        return any(getattr(self, field.name).requests for field in fields(self))

    def nsight(self) -> dict[str, int | float]:
        """The counts by the names that Nsight Compute has for them."""
        loads, stores = self.shared_load, self.shared_store
        shared = loads + stores + self.copy_store
        return {
            "smsp__sass_inst_executed_op_global_ld.sum": self.global_load.requests,
            "smsp__sass_inst_executed_op_global_st.sum": self.global_store.requests,
            "smsp__sass_inst_executed_op_ldgsts.sum": self.copy_store.requests,
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": self.global_load.sectors + self.copy_load.sectors,
            "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": self.global_store.sectors,
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum": self.copy_load.sectors,
            "smsp__sass_inst_executed_op_shared_ld.sum": loads.requests,
            "smsp__sass_inst_executed_op_shared_st.sum": stores.requests,
            "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": loads.wavefronts,
            "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum": stores.wavefronts,
            "memory_l1_wavefronts_shared": shared.wavefronts,
            "memory_l1_wavefronts_shared_ideal": shared.ideal_wavefronts,
        }


_Sum = TypeVar("_Sum", SharedTraffic, GlobalTraffic, Traffic)


def _sum(left: _Sum, right: _Sum) -> _Sum:
    return type(left)(*(getattr(left, f.name) + getattr(right, f.name) for f in fields(left)))


@dataclass(frozen=True, slots=True)
class LineCounts:
    """What one line of the source did.

    Attributes:
        line: Its number in ``Report.text``.
        location: File and line to look at: ``"tiled.cu.j2:57"``, or a line of the user's own file.
        text: Its text.
        flops: Floating-point operations of its intrinsics, over all threads; a fused multiply-add is two.
        barriers: Barriers of a block, over all blocks.
        source: Traffic as the source has it: an access for each element.
        sass: Traffic as the machine code (SASS) has it, which vectorizes contiguous accesses; None if not asked for.
    """

    line: int
    location: str
    text: str
    flops: int
    barriers: int
    source: Traffic
    sass: Traffic | None


def line_counts(
    sites: Iterable[RawSite],
    lines: Mapping[int, int],
    text: Callable[[int], str],
    location: Callable[[int], str],
    *,
    sass: bool,
) -> tuple[LineCounts, ...]:
    """Sums by source line of what places in the code did.

    Args:
        sites: The places.
        lines: Each place's line.
        text: A line's text.
        location: A line's file and line.
        sass: Whether the accesses of the machine code were counted.
    """
    sums: dict[int, LineCounts] = {}
    for site in sites:
        line = lines.get(site.pc, 0)
        found = sums.get(line) or LineCounts(
            line, location(line), text(line), 0, 0, Traffic(), Traffic() if sass else None
        )
        sums[line] = replace(
            found,
            flops=found.flops + site.flops,
            barriers=found.barriers + site.barriers,
            source=found.source + _traffic(site.kind, site.source),
            sass=None if found.sass is None else found.sass + _traffic(site.kind, site.sass),
        )
    return tuple(sums[line] for line in sorted(sums) if _did_something(sums[line]))


def _did_something(line: LineCounts) -> bool:
    return bool(line.flops or line.barriers or line.source)


def total(parts: Iterable[Traffic]) -> Traffic:
    """The sum."""
    return sum(parts, Traffic())


def _traffic(kind: int, by_space: Any) -> Traffic:
    shared, in_global = (tuple(getattr(raw, name) for name, _ in raw._fields_) for raw in by_space)
    name = ("load", "store", "copy")[kind]
    if name == "copy":
        return Traffic(copy_load=GlobalTraffic(*in_global), copy_store=SharedTraffic(*shared))
    return Traffic(**{f"shared_{name}": SharedTraffic(*shared), f"global_{name}": GlobalTraffic(*in_global)})  # type: ignore[arg-type]
