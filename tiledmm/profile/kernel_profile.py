"""A kernel's profile as data: figures that are named by their meaning, from Nsight Compute's metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tiledmm.compile.disassembly import MachineCode
from tiledmm.profile.ncu import Instructions, ProfiledLaunch
from tiledmm.simulator.build.source_map import SourceMap, own_line

# Warp samples by stall reason, as the raw page and the source page name them. Samples of cycles without an issued
# instruction ("..._not_issued", "... (Not Issued)") do not match.
_SAMPLED = re.compile(r"(?:smsp__pcsamp_warps_issue_stalled_|stall_)(\w+?)(?<!_not_issued)")

# Stall reasons, from the source page's names to those of the metrics.
_SHORT = {
    "dispatch": "dispatch_stall",
    "imc": "imc_miss",
    "lg": "lg_throttle",
    "long_sb": "long_scoreboard",
    "math": "math_pipe_throttle",
    "mio": "mio_throttle",
    "no_inst": "no_instruction",
    "no_instructions": "no_instruction",
    "short_sb": "short_scoreboard",
    "sleep": "sleeping",
    "tex": "tex_throttle",
}

#: Stall reason of samples whose warp did not stall: its instruction was issued.
ISSUING = "selected"

#: Section of Nsight Compute that counts instructions and samples warps.
SECTION = "SourceCounters"


def _counted(metric: str, scale: float = 1.0) -> Any:
    return field(default=None, metadata={"metric": metric, "scale": scale})


def _percent(metric: str) -> Any:
    return _counted(metric, 0.01)


@dataclass(frozen=True, slots=True)
class ProfiledLine:
    """Metrics of one source line of a kernel, including functions that are inlined there.

    Attributes:
        number: Number of the line in the rendered kernel, 0 if unknown.
        location: Template and line that it comes from: ``"tiled.cu.j2:57"``.
        text: Text of the line.
        waits: Samples of stalled warps, by stall reason.
        share: Fraction of the kernel's samples of stalled warps that this line has.
        wavefronts, ideal_wavefronts: Wavefronts of accesses to shared memory, and wavefronts without bank conflicts.
        sectors, ideal_sectors: 32-byte sectors of accesses to global memory, and sectors if these were coalesced.
    """

    number: int
    location: str
    text: str
    waits: dict[str, int]
    share: float
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    sectors: int = 0
    ideal_sectors: int = 0


@dataclass(frozen=True, slots=True)
class Profile:
    """The profile of one kernel. A figure is None if this Nsight Compute does not have it for this GPU.

    Attributes:
        label: Name of the variant and its tile.
        kernel: Name of the kernel.
        nanoseconds: Duration of the launch under Nsight Compute, with cold caches.
        sm_throughput: Fraction of peak of the busiest unit in the SMs.
        memory_throughput: Fraction of peak of the busiest unit between the SMs and DRAM, caches included.
        dram_throughput: Fraction of peak of DRAM.
        shared_throughput: Fraction of peak of shared memory, in wavefronts.
        tensor_active: Fraction of cycles in which the tensor cores are active.
        issued: Instructions per cycle per scheduler, at most 1. An SM has four schedulers.
        instructions: Warp instructions that were executed.
        shared_wavefronts, ideal_shared_wavefronts: Wavefronts of shared memory, and wavefronts without bank conflicts.
        load_sectors, load_requests, store_sectors, store_requests: 32-byte sectors and requests of global loads and of
            global stores, cp.async included.
        global_sectors, ideal_global_sectors: 32-byte sectors of accesses to global memory, and sectors if these were
            coalesced.
        l2_hit_rate: Fraction of sectors that hit in L2.
        occupancy: Achieved occupancy: resident warps as a fraction of the maximum, averaged while the SM is active.
        possible_occupancy: Theoretical occupancy, a fraction that registers, shared memory and block size allow.
        registers: Registers per thread.
        registers_limit, shared_limit, warps_limit, blocks_limit: Blocks per SM that each resource allows.
        waits: Warp samples by stall reason (``selected``: not stalled), the most frequent first.
        lines: Source lines, those with the most stalled warps first.
        others: Other kernels that were launched for the product, and their durations in nanoseconds.
        missing: Metrics that Nsight Compute has no value for.
        note: A remark; empty if there is none.
    """

    label: str
    kernel: str
    nanoseconds: float | None = _counted("gpu__time_duration.sum")
    sm_throughput: float | None = _percent("sm__throughput.avg.pct_of_peak_sustained_elapsed")
    memory_throughput: float | None = _percent("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed")
    dram_throughput: float | None = _percent("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed")
    shared_throughput: float | None = _percent(
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
    )
    tensor_active: float | None = _percent("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active")
    issued: float | None = _counted("smsp__issue_active.avg.per_cycle_active")
    instructions: float | None = _counted("smsp__inst_executed.sum")
    shared_wavefronts: float | None = _counted("memory_l1_wavefronts_shared")
    ideal_shared_wavefronts: float | None = _counted("memory_l1_wavefronts_shared_ideal")
    load_sectors: float | None = _counted("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")
    load_requests: float | None = _counted("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum")
    store_sectors: float | None = _counted("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum")
    store_requests: float | None = _counted("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum")
    global_sectors: float | None = _counted("memory_l2_theoretical_sectors_global")
    ideal_global_sectors: float | None = _counted("memory_l2_theoretical_sectors_global_ideal")
    l2_hit_rate: float | None = _percent("lts__t_sector_hit_rate.pct")
    occupancy: float | None = _percent("sm__warps_active.avg.pct_of_peak_sustained_active")
    possible_occupancy: float | None = _percent("sm__maximum_warps_per_active_cycle_pct")
    registers: float | None = _counted("launch__registers_per_thread")
    registers_limit: float | None = _counted("launch__occupancy_limit_registers")
    shared_limit: float | None = _counted("launch__occupancy_limit_shared_mem")
    warps_limit: float | None = _counted("launch__occupancy_limit_warps")
    blocks_limit: float | None = _counted("launch__occupancy_limit_blocks")
    waits: dict[str, int] = field(default_factory=dict)
    lines: tuple[ProfiledLine, ...] = ()
    others: dict[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    note: str = ""

    @property
    def conflicts(self) -> float | None:
        """Number of excess wavefronts of shared memory, which bank conflicts cause; None if unknown."""
        return _difference(self.shared_wavefronts, self.ideal_shared_wavefronts)

    @property
    def sectors_per_load(self) -> float | None:
        """Number of 32-byte sectors per global load of a warp; None if unknown."""
        return _ratio(self.load_sectors, self.load_requests)

    @property
    def sectors_per_store(self) -> float | None:
        """Number of 32-byte sectors per global store of a warp; None if unknown."""
        return _ratio(self.store_sectors, self.store_requests)

    def share(self, reason: str) -> float | None:
        """Return the fraction of the warps' time in which they stall for a reason; None if no warp was sampled.

        Args:
            reason: Stall reason, such as ``"barrier"``.
        """
        return _ratio(self.waits.get(reason, 0), sum(self.waits.values()))


#: Names of Nsight Compute's metrics, by the attributes of ``Profile``.
METRICS: dict[str, str] = {each.name: each.metadata["metric"] for each in fields(Profile) if "metric" in each.metadata}


def reduced(label: str, launch: ProfiledLaunch) -> Profile:
    """Convert the metrics of one launch to a profile, without source lines.

    Args:
        label: Name of the variant and its tile.
        launch: Launch with its metrics.
    """
    figures = {}
    for each in fields(Profile):
        if "metric" in each.metadata and (value := launch.values.get(each.metadata["metric"])) is not None:
            figures[each.name] = value * each.metadata["scale"]
    missing = tuple(metric for name, metric in METRICS.items() if name not in figures)
    waits = _waits(launch.values)
    return Profile(label, launch.name, **figures, waits=dict(waits.most_common()), missing=missing)


def with_lines(profile: Profile, counted: Instructions, code: MachineCode, source: str, places: SourceMap) -> Profile:
    """Return a profile to which the metrics of source lines are added.

    If the machine code that ran is not ``code``, a note that states this is added instead.

    Args:
        profile: Profile of the kernel.
        counted: Metrics of the instructions that ran.
        code: Machine code of the kernel, with line information.
        source: Source of the kernel.
        places: Template and line of each line of the source.
    """
    for place, text, _ in counted.rows:
        known = code.instructions.get(place)
        if known is None or known.opcode != _opcode(text):
            return replace(
                profile,
                note=f"no source lines: the code that ran is not the code that {profile.kernel} compiles to here",
            )
    texts = places.written or source.splitlines()
    waits: dict[int, Counter[str]] = {}
    others: dict[int, Counter[str]] = {}
    for place, _, numbers in counted.rows:
        line = own_line(code.instructions[place].lines, places.page)
        waits.setdefault(line, Counter()).update(_waits(numbers))
        others.setdefault(line, Counter()).update({name: int(numbers.get(_AT[name], 0)) for name in _AT})
    for each in waits.values():
        del each[ISSUING]
    total = sum(each.total() for each in waits.values())
    lines = [
        ProfiledLine(
            line, places.location(line), texts[line - 1].strip() if line else "", dict(each.most_common()),
            each.total() / max(total, 1), **others[line],
        )
        for line, each in sorted(waits.items(), key=lambda item: (-item[1].total(), item[0]))
        if each.total() or others[line].total()
    ]  # fmt: skip
    return replace(profile, lines=tuple(lines))


# Headings of the source page, by the attributes of ``ProfiledLine``.
_AT = {
    "wavefronts": "L1 Wavefronts Shared",
    "ideal_wavefronts": "L1 Wavefronts Shared Ideal",
    "sectors": "L2 Theoretical Sectors Global",
    "ideal_sectors": "L2 Theoretical Sectors Global Ideal",
}


def _waits(numbers: Mapping[str, float]) -> Counter[str]:
    """Return the numbers of warp samples by stall reason, from metrics of a launch or an instruction.

    Different names of a reason in Nsight Compute are replaced by one name.

    Args:
        numbers: Values by Nsight Compute's names, among them those of other metrics.
    """
    samples: Counter[str] = Counter()
    for name, value in numbers.items():
        if value and (sampled := _SAMPLED.fullmatch(name)):
            samples[_SHORT.get(sampled[1], sampled[1])] += int(value)
    return samples


def _opcode(text: str) -> str:
    """Return the opcode of a SASS instruction without predicate and modifiers: ``"LDS"`` for ``"@P0 LDS.128 R4"``."""
    words = [word for word in text.split() if not word.startswith("@")]
    return words[0].rstrip(";").partition(".")[0] if words else ""


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _difference(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right


def missing_metrics(profiles: Iterable[Profile]) -> list[str]:
    """Return the metrics for which at least one of the profiles has no value."""
    return list(dict.fromkeys(metric for each in profiles for metric in each.missing))
