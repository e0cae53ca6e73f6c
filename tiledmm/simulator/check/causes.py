"""Causes of races: one finding for all pairs of lines that one barrier would order.

A missing barrier shows at each pair of accesses that it would order: two arrays that are filled and then read are two
pairs, and a reduction of a warp that is unrolled has dozens. Pairs are of one cause if a barrier at one place in the
source stands between the accesses of each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tiledmm.simulator.check.findings import Finding, times

# The largest number of lines that a message lists beside the two of the first pair.
_MOST_LINES = 8


@dataclass(frozen=True, slots=True)
class Pair:
    """Two accesses that race.

    Attributes:
        finding: The finding about them.
        array: Name of the array that both access.
        first, last: Lines of the two accesses, or of the calls in the kernel that lead to them, in the order of the
            source. Which access came first in the simulated order says nothing: nothing orders the two.
        one_warp: Whether both threads were in one warp each time.
    """

    finding: Finding
    array: str
    first: int
    last: int
    one_warp: bool

    @property
    def is_in_order(self) -> bool:
        """Whether the later access comes later in the source, too."""
        return self.finding.line > (self.finding.other_line or 0)

    def is_ordered_at(self, line: int) -> bool:
        """Return whether a barrier just before a line would stand between the two accesses.

        Accesses on one line, in different iterations of a loop, are ordered by a barrier on this line.
        """
        return self.first - (self.first == self.last) < line <= self.last


def one_for_each_cause(pairs: Iterable[Pair]) -> list[Finding]:
    """Return one finding for each missing barrier: one of its pairs, with the lines of the others.

    Args:
        pairs: Pairs of one kind, in the order in which they were found.
    """
    causes: dict[int, list[Pair]] = {}
    in_warps = []
    for pair in sorted(pairs, key=lambda each: (each.one_warp, each.last)):
        line = next((line for line in causes if pair.is_ordered_at(line)), 0)
        if pair.one_warp and not line:
            in_warps.append(pair)
        else:
            causes.setdefault(line or pair.last, []).append(pair)
    return [_merged(each) for each in (*causes.values(), *_sequences(in_warps))]


def one_for_each_wait(accesses: Iterable[tuple[Hashable, bool, Finding]]) -> list[Finding]:
    """Return one finding for each missing wait: the most telling of its accesses, with the lines of the others.

    Args:
        accesses: Findings about accesses to memory that asynchronous operations use. Before each come what stands for
            its cause, and whether its message names a wait that was of no use.
    """
    causes: dict[Hashable, list[tuple[bool, Finding]]] = {}
    for cause, names_wait, each in accesses:
        causes.setdefault(cause, []).append((names_wait, each))
    found = []
    for every in causes.values():
        first = max(every, key=lambda each: each[0])[1]
        count = sum(each.count for _, each in every)
        others = {each.line: each.location for _, each in every if each.line and each.line != first.line}
        also = sorted(others)
        if len(every) > 1:
            shown = f", also at {_listed([others[line] for line in also])}" if also else ""
            said = f"; {count:,} accesses have this cause{shown}"
            first = replace(
                first, message=first.message.removesuffix(times(first.count)) + said, count=count, also=tuple(also)
            )
        found.append(first)
    return found


def _listed(locations: Sequence[str]) -> str:
    more = f" and {len(locations) - _MOST_LINES} more lines" if len(locations) > _MOST_LINES else ""
    return ", ".join(locations[:_MOST_LINES]) + more


def _sequences(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Yield groups of pairs whose lines overlap: the steps of what a warp does without a barrier."""
    group: list[Pair] = []
    last = 0
    for pair in sorted(pairs, key=lambda each: (each.first, each.last)):
        if group and pair.first > last:
            yield group
            group = []
        group.append(pair)
        last = max(last, pair.last)
    if group:
        yield group


def _merged(pairs: list[Pair]) -> Finding:
    """Return the finding about the most telling pair, which also names the lines of all others.

    It is one of threads of different warps, whose later access comes later in the source, or else the most frequent.
    """
    first = max(pairs, key=lambda each: (not each.one_warp, each.is_in_order, each.finding.count)).finding
    named = {first.line, first.other_line}
    others = {each.finding.line: each.finding.location for each in pairs if each.finding.line}
    others |= {each.finding.other_line: each.finding.other_location or "" for each in pairs if each.finding.other_line}
    also = sorted(line for line in others if line not in named)
    if len(pairs) == 1:
        return first
    count = sum(each.finding.count for each in pairs)
    arrays = sorted({each.array for each in pairs if each.array})
    of_arrays = f" to {', '.join(arrays[:-1])} and {arrays[-1]}" if len(arrays) > 1 else ""
    elsewhere = f", also at {_listed([others[line] for line in also])}" if also else ""
    said = f"; {count:,} pairs of accesses{of_arrays} race for this reason{elsewhere}"
    message = first.message.removesuffix(times(first.count)) + said
    return replace(first, message=message, count=count, also=tuple(also))
