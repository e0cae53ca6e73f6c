"""What a profile says of a kernel, as data: numbers that mean something, out of Nsight Compute's counters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tiledmm.codegen.page import first_line_of_page
from tiledmm.codegen.source_map import SourceMap
from tiledmm.compile.disassembly import MachineCode
from tiledmm.profile.ncu import Instructions, ProfiledLaunch
from tiledmm.simulator.lines import own_line

# Samples of warps, by what they were found doing: as the raw page calls them, and the source page. Not the same counted
# only where a scheduler issued nothing ("..._not_issued", "... (Not Issued)").
_SAMPLED = re.compile(r"(?:smsp__pcsamp_warps_issue_stalled_|stall_)(\w+?)(?<!_not_issued)")

# What the source page calls a reason, and what the metric does.
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

#: What a warp does that does not wait: its instruction was issued.
ISSUING = "selected"

#: Instructions are counted, and warps sampled, by this section of Nsight Compute's.
SECTION = "SourceCounters"


def _counted(metric: str, scale: float = 1.0) -> Any:
    return field(default=None, metadata={"metric": metric, "scale": scale})


def _percent(metric: str) -> Any:
    return _counted(metric, 0.01)


@dataclass(frozen=True, slots=True)
class ProfiledLine:
    """What was counted at a source line, those of functions inlined there included.

    Attributes:
        number: Its number in the rendered kernel, 0 if unknown.
        location: Template and line that it comes from: ``"tiled.cu.j2:57"``.
        text: Its text.
        waits: Samples of warps that waited there, by reason.
        share: Of the samples of waiting warps in the kernel, those that were here.
        wavefronts, ideal_wavefronts: Of its accesses to shared memory, and the fewest they could do with.
        sectors, ideal_sectors: Stretches of 32 bytes that its accesses to global memory touch, and the fewest that hold
            what they ask for.
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
    """What limits one kernel. Figures are None where this Nsight Compute has none for this GPU; shares are fractions.

    Attributes:
        label: The variant and its tile.
        kernel: The kernel's name.
        nanoseconds: Time of the launch under Nsight Compute, with cold caches.
        sm_throughput: Of the peak of whatever is busiest in an SM.
        memory_throughput: Of the peak of whatever is busiest between the SMs and memory, caches included.
        dram_throughput: Of the peak of the memory.
        shared_throughput: Of the wavefronts that shared memory could serve.
        tensor_active: Of the cycles, those in which tensor cores work.
        issued: Instructions that a scheduler issues a cycle; 1 at most, and an SM has four schedulers.
        instructions: Instructions that warps executed.
        shared_wavefronts, ideal_shared_wavefronts: Times that shared memory had to answer, and the fewest that the same
            accesses could do with.
        load_sectors, load_requests, store_sectors, store_requests: Accesses of warps to global memory, cp.async
            included, and what they touch in stretches of 32 bytes.
        global_sectors, ideal_global_sectors: Stretches of 32 bytes that accesses to global memory touch, and the fewest
            that hold what they ask for.
        l2_hit_rate: Of the sectors that L2 was asked for, those that it had.
        occupancy: Warps on an SM, of those that it can hold: on average, while it works.
        possible_occupancy: What registers, shared memory and the block's size leave possible.
        registers: Of a thread.
        registers_limit, shared_limit, warps_limit, blocks_limit: Blocks that would fit on an SM, were this the only
            limit.
        waits: Samples of warps by what they waited for (``selected``: nothing), the most first.
        lines: The kernel's source lines, those where warps wait most first.
        others: What else was launched for the product: kernels, and their nanoseconds.
        missing: Metrics that Nsight Compute has no number for.
        note: What else is to be said.
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
        """Wavefronts of shared memory that bank conflicts cost."""
        return _difference(self.shared_wavefronts, self.ideal_shared_wavefronts)

    @property
    def sectors_per_load(self) -> float | None:
        """Sectors that one load of a warp touches."""
        return _ratio(self.load_sectors, self.load_requests)

    @property
    def sectors_per_store(self) -> float | None:
        """Sectors that one store of a warp touches."""
        return _ratio(self.store_sectors, self.store_requests)

    def share(self, reason: str) -> float | None:
        """Of a warp's time, what it spends waiting for this. None if no warp was sampled."""
        return _ratio(self.waits.get(reason, 0), sum(self.waits.values()))


#: Nsight Compute's names of what ``Profile`` has.
METRICS: dict[str, str] = {each.name: each.metadata["metric"] for each in fields(Profile) if "metric" in each.metadata}


def reduced(label: str, launch: ProfiledLaunch) -> Profile:
    """The numbers of one launch."""
    found = {}
    for each in fields(Profile):
        if "metric" in each.metadata and (value := launch.values.get(each.metadata["metric"])) is not None:
            found[each.name] = value * each.metadata["scale"]
    missing = tuple(metric for name, metric in METRICS.items() if name not in found)
    waits = _waits(launch.values)
    return Profile(label, launch.name, **found, waits=dict(waits.most_common()), missing=missing)


def with_lines(profile: Profile, counted: Instructions, code: MachineCode, source: str, places: SourceMap) -> Profile:
    """The same, with what was counted at each source line.

    Args:
        profile: Of the kernel.
        counted: What was counted at each of its instructions.
        code: The same machine code, with line information.
        source: What it was compiled from.
        places: Template and line of each line of the source.
    """
    for place, text, _ in counted.rows:
        known = code.instructions.get(place)
        if known is None or known.opcode != _opcode(text):
            return replace(profile, note=f"no source lines: what ran is not what {profile.kernel} is compiled to here")
    page, texts = first_line_of_page(source), source.splitlines()
    waits: dict[int, Counter[str]] = {}
    others: dict[int, Counter[str]] = {}
    for place, _, numbers in counted.rows:
        line = own_line(code.instructions[place].lines, page)
        waits.setdefault(line, Counter()).update(_waits(numbers))
        others.setdefault(line, Counter()).update({name: int(numbers.get(_AT[name], 0)) for name in _AT})
    for each in waits.values():
        del each[ISSUING]
    whole = sum(each.total() for each in waits.values())
    lines = [
        ProfiledLine(
            line, places.location(line), texts[line - 1].strip() if line else "", dict(each.most_common()),
            each.total() / max(whole, 1), **others[line],
        )
        for line, each in sorted(waits.items(), key=lambda item: (-item[1].total(), item[0]))
        if each.total() or others[line].total()
    ]  # fmt: skip
    return replace(profile, lines=tuple(lines))


# Headings of the source page.
_AT = {
    "wavefronts": "L1 Wavefronts Shared",
    "ideal_wavefronts": "L1 Wavefronts Shared Ideal",
    "sectors": "L2 Theoretical Sectors Global",
    "ideal_sectors": "L2 Theoretical Sectors Global Ideal",
}


def _waits(numbers: Mapping[str, float]) -> Counter[str]:
    """Samples by what warps were doing, by one name for each reason."""
    found: Counter[str] = Counter()
    for name, value in numbers.items():
        if value and (sampled := _SAMPLED.fullmatch(name)):
            found[_SHORT.get(sampled[1], sampled[1])] += int(value)
    return found


def _opcode(text: str) -> str:
    """The name of an instruction without what guards it, and without modifiers."""
    words = [word for word in text.split() if not word.startswith("@")]
    return words[0].rstrip(";").partition(".")[0] if words else ""


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _difference(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right


def missing_metrics(profiles: Iterable[Profile]) -> list[str]:
    """Metrics that at least one of the profiles has no number for."""
    return list(dict.fromkeys(metric for each in profiles for metric in each.missing))
