"""Memory traffic of a simulated kernel by source line, with Nsight Compute's names for what is counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tiledmm.simulator.execute.interface import KINDS

if TYPE_CHECKING:
    from tiledmm.simulator.build.native_kernel import NativeKernel
    from tiledmm.simulator.execute.grid import Outcome


@dataclass(frozen=True, slots=True)
class SharedTraffic:
    """Accesses of warps to shared memory.

    Attributes:
        requests: Number of instructions that warps executed.
        lanes: Number of active threads, summed over all requests.
        bytes: Bytes that these threads access.
        wavefronts: Passes through shared memory: each of its 32 banks delivers one 4-byte word per wavefront.
        ideal_wavefronts: Wavefronts without bank conflicts.
    """

    requests: int = 0
    lanes: int = 0
    bytes: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0

    @property
    def bank_conflicts(self) -> int:
        """Excess wavefronts: wavefronts that are needed only because of bank conflicts."""
        return self.wavefronts - self.ideal_wavefronts

    def __add__(self, other: SharedTraffic) -> SharedTraffic:
        return _sum(self, other)


@dataclass(frozen=True, slots=True)
class GlobalTraffic:
    """Accesses of warps to global memory, as L1 receives them.

    Attributes:
        requests: Number of instructions that warps executed.
        lanes: Number of active threads, summed over all requests.
        bytes: Bytes that these threads access.
        sectors: 32-byte sectors that the requests access.
        ideal_sectors: Sectors of the same requests if the bytes of their threads were contiguous.
    """

    requests: int = 0
    lanes: int = 0
    bytes: int = 0
    sectors: int = 0
    ideal_sectors: int = 0

    @property
    def sectors_per_request(self) -> float:
        """Sectors per request; 0 without requests."""
        return self.sectors / self.requests if self.requests else 0.0

    def __add__(self, other: GlobalTraffic) -> GlobalTraffic:
        return _sum(self, other)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Memory traffic, by memory and direction.

    Attributes:
        global_load, global_store: Loads from and stores to global memory.
        shared_load, shared_store: Loads from and stores to shared memory.
        copy_load, copy_store: Copies by cp.async: their loads from global and their stores to shared memory.
        bulk_load, bulk_store: Bulk copies and TMA between global and shared memory; a request is one copy, and its
            bytes are those of elements inside of the array, in each block to which it goes.
        bulk_shared: The same copies in shared memory.
        wgmma: Operands that wgmma reads from shared memory, B once per warpgroup; a request is one wgmma of a warp.
    """

    global_load: GlobalTraffic = GlobalTraffic()
    global_store: GlobalTraffic = GlobalTraffic()
    shared_load: SharedTraffic = SharedTraffic()
    shared_store: SharedTraffic = SharedTraffic()
    copy_load: GlobalTraffic = GlobalTraffic()
    copy_store: SharedTraffic = SharedTraffic()
    bulk_load: GlobalTraffic = GlobalTraffic()
    bulk_store: GlobalTraffic = GlobalTraffic()
    bulk_shared: SharedTraffic = SharedTraffic()
    wgmma: SharedTraffic = SharedTraffic()

    def __add__(self, other: Traffic) -> Traffic:
        return _sum(self, other)

    def __bool__(self) -> bool:
        return any(getattr(self, field.name).requests for field in fields(self))

    def nsight(self) -> dict[str, int | float]:
        """Return the counts in a dict whose keys are the names of Nsight Compute's metrics."""
        loads, stores = self.shared_load, self.shared_store
        shared = loads + stores + self.copy_store + self.wgmma
        hopper = {
            "sm__inst_executed_pipe_tensor_op_gmma.sum": self.wgmma.requests,
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum": self.wgmma.wavefronts,
            "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum": self.bulk_load.sectors,
        }
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
            **(hopper if any(hopper.values()) else {}),
        }


_Sum = TypeVar("_Sum", SharedTraffic, GlobalTraffic, Traffic)


def _sum(left: _Sum, right: _Sum) -> _Sum:
    return type(left)(*(getattr(left, f.name) + getattr(right, f.name) for f in fields(left)))


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Counts of one source line.

    Attributes:
        line: Number of the line in ``Report.text``.
        location: File and line: ``"tiled.cu.j2:57"``, or a line of the user's own file.
        text: Text of the line.
        flops: Floating-point operations, over all threads; a multiply-add counts as two.
        barriers: Number of barriers at which blocks waited, summed over all blocks.
        source: Traffic of the accesses in the source: one access per element.
        sass: Traffic of the accesses in the machine code (SASS), which vectorizes contiguous ones; None if it was not
            counted.
        phases: Number of phases that completed of the mbarriers that the line initialises.
    """

    line: int
    location: str
    text: str
    flops: int
    barriers: int
    source: Traffic
    sass: Traffic | None
    phases: int = 0


@dataclass(frozen=True, slots=True)
class AccessCounts:
    """Counts of one access in a source line: one load, one store or one copy.

    Attributes:
        line: Number of the line in ``Report.text``.
        location: File and line: ``"tiled.cu.j2:57"``, or a line of the user's own file.
        text: The access as it is written in the line: ``"A[row * K + k]"``; empty if it is not known.
        source: Traffic of the accesses in the source: one access per element.
        sass: Traffic of the accesses in the machine code (SASS), which vectorizes contiguous ones; None if it was not
            counted.
    """

    line: int
    location: str
    text: str
    source: Traffic
    sass: Traffic | None


def access_counts(kernel: NativeKernel, outcomes: Sequence[Outcome], *, sass: bool) -> tuple[AccessCounts, ...]:
    """Return the counts of a kernel's accesses to memory, in source order.

    Args:
        kernel: The kernel.
        outcomes: Outcomes of its runs, whose counts are added.
        sass: Whether the accesses of the machine code were counted.
    """
    sites = [site for each in outcomes for site in each.sites if site.bytes]
    lines = kernel.lines.of(site.pc for site in sites)
    sums: dict[tuple[int, str, int], AccessCounts] = {}
    for site in sites:
        line, text = lines.get(site.pc, 0), kernel.lines.access(site.pc)
        key = (line, text, site.kind)
        counts = sums.get(key) or AccessCounts(
            line, kernel.lines.location(line), text, Traffic(), Traffic() if sass else None
        )
        sums[key] = replace(
            counts,
            source=counts.source + _traffic(site.kind, site.source),
            sass=None if counts.sass is None else counts.sass + _traffic(site.kind, site.sass),
        )
    return tuple(sums[key] for key in sorted(sums) if sums[key].source)


def line_counts(kernel: NativeKernel, outcomes: Sequence[Outcome], *, sass: bool) -> tuple[LineCounts, ...]:
    """Return the counts of a kernel by source line, for lines with any counts.

    Args:
        kernel: The kernel.
        outcomes: Outcomes of its runs, whose counts are added.
        sass: Whether the accesses of the machine code were counted.
    """
    sites = [site for each in outcomes for site in each.sites]
    lines = kernel.lines.of(site.pc for site in sites)
    sums: dict[int, LineCounts] = {}
    for site in sites:
        line = lines.get(site.pc, 0)
        counts = sums.get(line) or LineCounts(
            line, kernel.lines.location(line), kernel.lines.text(line), 0, 0, Traffic(), Traffic() if sass else None
        )
        sums[line] = replace(
            counts,
            flops=counts.flops + site.flops,
            barriers=counts.barriers + site.barriers,
            phases=counts.phases + site.phases,
            source=counts.source + _traffic(site.kind, site.source),
            sass=None if counts.sass is None else counts.sass + _traffic(site.kind, site.sass),
        )
    return tuple(sums[line] for line in sorted(sums) if _has_counts(sums[line]))


def _has_counts(line: LineCounts) -> bool:
    return bool(line.flops or line.barriers or line.phases or line.source)


def total(parts: Iterable[Traffic]) -> Traffic:
    """Return the sum of several counts of traffic, by memory and direction."""
    return sum(parts, Traffic())


def _traffic(kind: int, by_space: Any) -> Traffic:
    shared, in_global = (tuple(getattr(raw, name) for name, _ in raw._fields_) for raw in by_space)
    name = KINDS[kind]
    if name == "copy":
        return Traffic(copy_load=GlobalTraffic(*in_global), copy_store=SharedTraffic(*shared))
    if name == "issue":
        return Traffic(bulk_load=GlobalTraffic(*in_global), bulk_shared=SharedTraffic(*shared))
    if name == "issue store":
        return Traffic(bulk_store=GlobalTraffic(*in_global), bulk_shared=SharedTraffic(*shared))
    if name == "wgmma":
        return Traffic(wgmma=SharedTraffic(*shared))
    return Traffic(**{f"shared_{name}": SharedTraffic(*shared), f"global_{name}": GlobalTraffic(*in_global)})  # type: ignore[arg-type]
