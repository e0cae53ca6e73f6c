"""Tables of profiles: variants side by side, and the source lines where the warps of each wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledmm.profile.diagnosis import REASONS, waits_in_words
from tiledmm.profile.kernel_profile import ISSUING, Profile, missing_metrics
from tiledmm.report.cells import NONE, count, percent, significant
from tiledmm.report.tables import Table

#: Stall reasons that are shown for every kernel. Others are shown if a kernel spends this fraction of its time on them.
WAITS = ("barrier", "mio_throttle", "short_scoreboard", "long_scoreboard")
_WORTH_A_ROW = 0.05

#: Maximum number of source lines that are shown for a kernel.
LINES = 6


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _microseconds(profile: Profile) -> float | None:
    return None if profile.nanoseconds is None else profile.nanoseconds / 1e3


_ROWS: dict[str, Callable[[Profile], str]] = {
    "time (us)": lambda each: significant(_microseconds(each)),
    "SM, of its peak": lambda each: percent(each.sm_throughput),
    "DRAM, of its peak": lambda each: percent(each.dram_throughput),
    "caches and buses, of their peak": lambda each: percent(each.memory_throughput),
    "shared memory, of its peak": lambda each: percent(each.shared_throughput),
    "tensor cores active": lambda each: percent(each.tensor_active),
    "instructions per cycle per scheduler": lambda each: significant(each.issued),
    "warp instructions": lambda each: count(_whole(each.instructions)),
    "shared wavefronts": lambda each: count(_whole(each.shared_wavefronts)),
    "of these, bank conflicts": lambda each: count(_whole(each.conflicts)),
    "global sectors per load": lambda each: significant(each.sectors_per_load),
    "global sectors per store": lambda each: significant(each.sectors_per_store),
    "L2 hit rate": lambda each: percent(each.l2_hit_rate),
    "occupancy": lambda each: percent(each.occupancy),
    "theoretical occupancy": lambda each: percent(each.possible_occupancy),
    "registers": lambda each: count(_whole(each.registers)),
}


def profiles_table(profiles: Sequence[Profile], title: str) -> Table:
    """Return a table with one row per metric and one column per profile."""
    rows = [(name, *map(cell, profiles)) for name, cell in _ROWS.items()]
    met = dict.fromkeys(reason for each in profiles for reason in each.waits)
    more = [
        reason
        for reason in met
        if reason not in (*WAITS, ISSUING) and any((each.share(reason) or 0.0) >= _WORTH_A_ROW for each in profiles)
    ]
    if met:
        rows += [(f"waiting: {name}", *(percent(each.share(name)) for each in profiles)) for name in (*WAITS, *more)]
    notes = [f"{each.label}: {note}." for each in profiles for note in _notes(each)]
    if absent := missing_metrics(profiles):
        notes.append(f"{NONE}: Nsight Compute has no value for {', '.join(absent)} on this GPU.")
    if met:
        reasons = "; ".join(f"{name}, {REASONS.get(name, 'as Nsight Compute calls it')}" for name in (*WAITS, *more))
        notes.append(f"Waiting, as a share of the warps' time: {reasons}.")
    return Table(title, ("<figure", *(each.label for each in profiles)), tuple(rows), tuple(notes))


def _notes(profile: Profile) -> list[str]:
    notes = [profile.note] if profile.note else []
    if profile.others:
        others = ", ".join(f"{name} ({significant(took / 1e3)} us)" for name, took in profile.others.items())
        notes.append(f"the metrics are those of {profile.kernel}; also launched: {others}")
    return notes


def lines_table(profile: Profile) -> Table:
    """Return a table of the source lines where a kernel's warps wait most, with one row per line."""
    rows = tuple(
        (
            line.location,
            percent(line.share),
            waits_in_words(line) or NONE,
            _beside(line.wavefronts, line.ideal_wavefronts),
            _beside(line.sectors, line.ideal_sectors),
            line.text,
        )
        for line in profile.lines[:LINES]
    )
    headings = ("<line", "of all waiting", "<for", "wavefronts", "sectors", "<source")
    notes = ("Wavefronts and sectors: the ideal number in parentheses, if it is smaller.",)
    return Table(f"{profile.label}: where {profile.kernel} waits", headings, rows, notes)


def _beside(number: int, ideal: int) -> str:
    if not number:
        return NONE
    return count(number) if number == ideal else f"{count(number)} ({count(ideal)})"
