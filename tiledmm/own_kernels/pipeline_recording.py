"""What one block does with mbarriers, bulk copies and ``wgmma``, step by step: the data of the page of a pipeline."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiledmm.simulator.check.findings import Finding
from tiledmm.simulator.execute.grid import Outcome
from tiledmm.simulator.execute.interface import KINDS
from tiledmm.simulator.report.events import Event
from tiledmm.simulator.report.requests import WARP

#: Steps that a recording has at most.
MOST_STEPS = 2000

_WARPGROUP = 4  # warps

_TO = "\N{EN DASH}"  # between the first and the last of several warps

_DEADLOCK = "deadlock"  # the kind of the finding

# Kinds that every lane of a warp has; one lane stands for its warp.
_OF_ALL_LANES = frozenset({"wait", "pass", "wait for wgmma", "pass wgmma"})

# Kinds that no thread does: they happen beside the threads.
_BESIDE = frozenset({"land", "complete"})

_SHOWN = _OF_ALL_LANES | _BESIDE | {"arrive", "expect", "issue", "wgmma", "commit wgmma"}

# An expression that names an element of an array of mbarriers, in the call that initialises it.
_ELEMENT = re.compile(r"\(\s*&?\s*(?:\w+\s*(?:\.|->)\s*)*(\w+)\s*\[")


@dataclass(slots=True)
class _Step:
    at: int  # number of the last event of its threads
    actor: int  # -1 for what no thread does
    kind: str
    event: Event
    count: int = 0
    bytes: int = 0
    warps: set[int] = field(default_factory=set)


def uses_pipeline(outcome: Outcome) -> bool:
    """Return whether the traced block waits for mbarriers, so that the page of a pipeline has something to show."""
    return any(KINDS[each.kind] in ("wait", "pass") for each in outcome.events)


def record_pipeline(
    events: Sequence[Event],
    block: tuple[int, int, int],
    text: str,
    findings: Sequence[Finding] = (),
    line_of: Callable[[int], int] = lambda line: line,
) -> dict[str, Any]:
    """Return what a page shows of a block's pipeline, as numbers, strings, lists and dicts.

    - ``actors``: who does something, by ``name``, ``role`` (``"producer"``, ``"consumer"``, or empty) and ``warps``.
      The four warps of a warpgroup that executes ``wgmma`` are one actor, and so are other warps that do the same.
    - ``barriers``: the mbarriers by ``name``, ``stage`` and ``arrivals`` per phase.
    - ``stages``: their number.
    - ``steps``: ``actor`` (-1 for none), ``kind``, ``line``, and what the kind needs of ``barrier`` (its number),
      ``stage``, ``phase``, ``count`` of arrivals or instructions, ``bytes``, ``copy`` (number of the copy that is
      issued or lands), ``to`` (the array that it writes), ``group`` of ``wgmma``, and ``finding``.

    A step of several warps or lanes stands where the last of them does it. ``"arrive"`` with bytes also expects these,
    and ``"wgmma"`` has all instructions of a group. The recording ends with the first ``wgmma`` that reads what a copy
    in flight writes, if that is a finding.

    Args:
        events: Events of the block.
        block: Number of threads per block along x, y and z.
        text: The kernel's source.
        findings: What is wrong with the launch that was recorded.
        line_of: Maps a line of ``text`` to the line that is shown; 0 for a line that is not.
    """
    own = Counter(each.by for each in events).most_common(1)[0][0] if events else 0
    barriers = _Barriers([each for each in events if each.rank == own], text)
    actors = _Actors(events, block, own)
    steps = _merged([each for each in events if each.rank == own], actors, barriers)
    rows, ended = _rows(steps, barriers, findings, line_of)
    deadlock = next((at for at, each in enumerate(findings) if each.kind == _DEADLOCK), None)
    if deadlock is not None and not ended:
        rows.append({"actor": -1, "kind": "deadlock", "line": 0, "finding": deadlock})
    return {
        "actors": actors.described(),
        "barriers": barriers.described(),
        "stages": barriers.stages,
        "steps": rows[:MOST_STEPS],
        "findings": [each.message for each in findings],
    }


class _Barriers:
    """The mbarriers of a block: numbers by offset, names, and the stages to which they belong."""

    def __init__(self, events: Sequence[Event], text: str) -> None:
        lines = text.splitlines()
        first: dict[int, Event] = {}
        for each in events:
            if each.kind == "init":
                first.setdefault(each.address, each)
        arrays: dict[str, list[int]] = defaultdict(list)
        for offset, each in sorted(first.items()):
            arrays[self._array(each, lines)].append(offset)
        self.number: dict[int, int] = {}
        self._rows: list[dict[str, Any]] = []
        for name, offsets in arrays.items():
            for index, offset in enumerate(offsets):
                self.number[offset] = len(self._rows)
                shown = f"{name}[{index}]" if len(offsets) > 1 else name
                self._rows.append({"name": shown, "stage": index, "arrivals": first[offset].value})
        self.stages = max((len(each) for each in arrays.values()), default=0)

    @staticmethod
    def _array(event: Event, lines: Sequence[str]) -> str:
        """Return the name of the array that a barrier is an element of: its own, or that of a member of a structure."""
        for line in (*event.calls, event.line):
            found = _ELEMENT.search(lines[line - 1]) if 0 < line <= len(lines) else None
            if found:
                return found[1]
        return event.array

    def stage(self, offset: int) -> int:
        """Return the stage of the barrier at an offset; -1 if there is none."""
        number = self.number.get(offset)
        return -1 if number is None else int(self._rows[number]["stage"])

    def described(self) -> list[dict[str, Any]]:
        """Return the barriers' names, stages and arrivals per phase."""
        return self._rows


class _Actors:
    """Who does something: warpgroups that multiply, warps, and other blocks of the cluster."""

    def __init__(self, events: Sequence[Event], block: tuple[int, int, int], own: int) -> None:
        self._block, self._own = block, own
        groups = {self.warp(each) // _WARPGROUP for each in events if each.kind == "wgmma" and each.by == own}
        self._groups = groups
        self._alike = self._find_alike(events)
        keys = dict.fromkeys(
            self._key(each)
            for each in sorted(events, key=lambda it: (it.by != own, self.warp(it)))
            if each.kind in _SHOWN - _BESIDE
        )
        issue = {self._key(each) for each in events if each.kind == "issue"}
        # Who issues copies and does not multiply comes first.
        self._keys = sorted(keys, key=lambda key: key[0] != "warp" or key not in issue)
        self._issue = issue
        self.number = {key: at for at, key in enumerate(self._keys)}

    def warp(self, event: Event) -> int:
        """Return the number of an event's warp."""
        x, y, z = event.thread
        return (x + self._block[0] * (y + self._block[1] * z)) // WARP

    def lane(self, event: Event) -> int:
        """Return the number of an event's lane."""
        x, y, z = event.thread
        return (x + self._block[0] * (y + self._block[1] * z)) % WARP

    def _key(self, event: Event) -> tuple[str, int]:
        if event.by != self._own:
            return "block", event.by
        warp = self.warp(event)
        if warp // _WARPGROUP in self._groups:
            return "warpgroup", warp // _WARPGROUP
        return "warp", self._alike.get(warp, [warp])[0]

    def _find_alike(self, events: Sequence[Event]) -> dict[int, list[int]]:
        """Return, by warp, all warps that do the same; only of those that neither multiply nor issue copies."""
        lanes: dict[int, dict[int, list[tuple[Any, ...]]]] = defaultdict(lambda: defaultdict(list))
        for each in events:
            # Which warps wait, and do not pass at once, is a matter of time.
            if each.by == self._own and each.kind in _SHOWN - _BESIDE and each.kind != "wait":
                done = (each.kind, each.address, each.other_address, each.value, each.line, each.calls)
                lanes[self.warp(each)][self.lane(each)].append(done)
        groups: dict[object, list[int]] = defaultdict(list)
        for warp in sorted(lanes):
            kinds = {done[0] for own in lanes[warp].values() for done in own}
            if not kinds & {"issue", "wgmma"} and warp // _WARPGROUP not in self._groups:
                groups[tuple(sorted((lane, tuple(own)) for lane, own in lanes[warp].items()))].append(warp)
        return {warp: warps for warps in groups.values() for warp in warps}

    def of(self, event: Event) -> int:
        """Return the actor's number; -1 for what no thread does."""
        return -1 if event.kind in _BESIDE else self.number[self._key(event)]

    def described(self) -> list[dict[str, Any]]:
        """Return names, roles and warps."""
        roles = {
            key: "" if key[0] == "block"
            else "consumer" if key[0] == "warpgroup" and key not in self._issue
            else "producer" if key[0] == "warp" and key in self._issue
            else ""
            for key in self._keys
        }  # fmt: skip
        many = Counter(roles.values())
        seen: Counter[str] = Counter()
        rows = []
        for key in self._keys:
            kind, number = key
            role = roles[key]
            alike = self._alike.get(number, [number]) if kind == "warp" else []
            warps = f"warps {number * 4}{_TO}{number * 4 + 3}" if kind == "warpgroup" else f"warp {number}"
            if len(alike) > 1:
                is_range = alike[-1] - alike[0] == len(alike) - 1
                warps = f"warps {alike[0]}{_TO}{alike[-1]}" if is_range else f"warps {', '.join(map(str, alike))}"
            name = f"{role.capitalize()} {seen[role]}" if role and many[role] > 1 else role.capitalize()
            seen[role] += 1
            if not name:
                name = {"block": f"Block of rank {number}", "warpgroup": f"Warpgroup {number}"}.get(
                    kind
                ) or warps.capitalize()
            rows.append(
                {"name": name, "role": role, "warps": "" if kind == "block" or name.lower() == warps else warps}
            )
        return rows


def _merged(events: Sequence[Event], actors: _Actors, barriers: _Barriers) -> list[_Step]:
    """Return the steps: what the lanes and warps of an actor do together is one."""
    chosen = _chosen_lanes(events, actors)
    found: dict[tuple[Any, ...], _Step] = {}
    times: Counter[tuple[Any, ...]] = Counter()
    groups: Counter[tuple[int, int]] = Counter()
    expected: dict[tuple[int, tuple[int, int, int]], Event] = {}
    for at, each in enumerate(events):
        if each.kind not in _SHOWN:
            continue
        if each.kind in _BESIDE:
            found["beside", at] = _Step(at, -1, each.kind, each, bytes=each.bytes)
            continue
        actor, warp = actors.of(each), actors.warp(each)
        thread = (each.by, warp, actors.lane(each))
        if each.kind in _OF_ALL_LANES and chosen[actor, warp] != thread[2]:
            continue
        if each.kind == "expect":
            expected[actor, thread] = each
            following = events[at + 1] if at + 1 < len(events) else None
            if following and (following.kind, following.thread, following.address) == (
                "arrive",
                each.thread,
                each.address,
            ):
                continue
        bytes_ = 0
        if each.kind == "arrive" and (before := expected.pop((actor, thread), None)):
            bytes_ = before.bytes if before.address == each.address else 0
        bytes_ = bytes_ or each.bytes * (each.kind in ("expect", "issue"))
        if each.kind in ("wgmma", "commit wgmma"):
            key: tuple[Any, ...] = (actor, "wgmma", groups[actor, warp])
            if each.kind == "commit wgmma":
                groups[actor, warp] += 1
                if key in found:
                    found[key].at = at
                continue
        else:
            # The n-th time that a thread does this.
            key = (actor, each.kind, each.address, each.other_address, each.value if each.kind != "arrive" else 0)
            times[key, thread if each.kind in ("arrive", "expect", "issue") else (each.by, warp)] += 1
            key = (*key, times[key, thread if each.kind in ("arrive", "expect", "issue") else (each.by, warp)])
        step = found.setdefault(key, _Step(at, actor, each.kind, each))
        step.at = at
        step.warps.add(warp)
        step.bytes += bytes_ if each.kind != "wgmma" else 0
        step.count += each.value if each.kind == "arrive" else 1
    for step in found.values():
        if step.kind == "wgmma":
            step.count //= max(1, len(step.warps))
    return _without_short_waits(sorted(found.values(), key=lambda it: it.at))


def _chosen_lanes(events: Sequence[Event], actors: _Actors) -> dict[tuple[int, int], int]:
    """Return, by actor and warp, the lane that has most events, and the last of several: it stands for its warp."""
    count: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    last: dict[tuple[int, int, int], int] = {}
    for at, each in enumerate(events):
        if each.kind in _SHOWN - _BESIDE:
            actor, warp, lane = actors.of(each), actors.warp(each), actors.lane(each)
            count[actor, warp][lane] += each.kind != "wait"
            last[actor, warp, lane] = at
    return {key: max(lanes, key=lambda lane: (lanes[lane], last[key[0], key[1], lane])) for key, lanes in count.items()}


def _without_short_waits(steps: Sequence[_Step]) -> list[_Step]:
    """Leave out waits for groups of ``wgmma`` that end before anything else happens."""
    kept = []
    for at, each in enumerate(steps):
        after = steps[at + 1] if at + 1 < len(steps) else None
        if each.kind == "wait for wgmma" and after and (after.kind, after.actor) == ("pass wgmma", each.actor):
            continue
        kept.append(each)
    return kept


def _rows(
    steps: Sequence[_Step], barriers: _Barriers, findings: Sequence[Finding], line_of: Callable[[int], int]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the steps as data, and whether they end with a finding."""
    rows: list[dict[str, Any]] = []
    flying: list[tuple[int, Event]] = []  # copies, with their numbers
    landed: list[Event] = []
    copies = 0
    groups: Counter[int] = Counter()
    for step in steps:
        event = step.event
        row: dict[str, Any] = {"actor": step.actor, "kind": step.kind, "line": _shown_line(event, line_of)}
        if step.kind in ("wait", "pass", "complete"):
            row |= {"barrier": barriers.number.get(event.address, -1), "phase": _as_signed(event.value)}
        elif step.kind in ("arrive", "expect"):
            row |= {"barrier": barriers.number.get(event.address, -1), "count": step.count}
            row |= {"bytes": step.bytes} if step.bytes else {}
        elif step.kind == "issue":
            row |= {"barrier": barriers.number.get(event.other_address, -1), "bytes": step.bytes, "copy": copies}
            row |= {"to": event.array, "stage": barriers.stage(event.other_address)}
            flying.append((copies, event))
            copies += 1
        elif step.kind == "land":
            found = next(
                (
                    i
                    for i, (_, it) in enumerate(flying)
                    if (it.address, it.other_address) == (event.address, event.other_address)
                ),
                None,
            )
            if found is None:
                continue
            copy, _ = flying.pop(found)
            row |= {"barrier": barriers.number.get(event.other_address, -1), "bytes": step.bytes, "copy": copy}
            row |= {"to": event.array, "stage": barriers.stage(event.other_address)}
            landed.append(event)
        elif step.kind == "wgmma":
            row |= {
                "count": step.count,
                "group": groups[step.actor],
                "stage": _stage_read(event, landed, flying, barriers),
            }
            groups[step.actor] += 1
        else:
            row["group"] = event.value
        rows.append(row)
        if step.kind == "wgmma" and (number := _finding(event, flying, findings)) is not None:
            row["finding"] = number
            return rows, True
    return rows, False


def _as_signed(phase: int) -> int:
    """Return the number of a phase; -1 for the one before the first."""
    return phase - (1 << 32) if phase >> 31 else phase


def _holds(copy: Event, address: int) -> bool:
    return copy.address <= address < copy.address + copy.bytes


def _stage_read(event: Event, landed: Sequence[Event], flying: Sequence[tuple[int, Event]], barriers: _Barriers) -> int:
    """Return the stage that a ``wgmma`` reads; -1 if no copy has written what it reads."""
    writers = (*reversed(landed), *(each for _, each in flying))
    copy = next((each for each in writers if _holds(each, event.address) or _holds(each, event.other_address)), None)
    return barriers.stage(copy.other_address) if copy else -1


def _finding(event: Event, flying: Sequence[tuple[int, Event]], findings: Sequence[Finding]) -> int | None:
    """Return the number of the finding about a ``wgmma`` that reads what a copy in flight writes, or None."""
    if not any(_holds(each, event.address) or _holds(each, event.other_address) for _, each in flying):
        return None
    return next((at for at, each in enumerate(findings) if each.line == event.line), None)


def _shown_line(event: Event, line_of: Callable[[int], int]) -> int:
    """Return the line of an event: that of the call, if the instruction is in a function of its own."""
    shown = [found for found in map(line_of, (*event.calls, event.line)) if found]
    return shown[0] if shown else 0
