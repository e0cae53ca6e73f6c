"""What the thread, or the block, that stores a wrong element of a product reads: facts, without a guess."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from tiledmm.simulator.report.events import Event

_Index: TypeAlias = tuple[int, ...]

# Ranges of elements that a sentence names.
_RANGES = 2


def explain_reads(
    events: Sequence[Event],
    element: tuple[int, int],
    k: int,
    *,
    names: tuple[str, str, str] = ("A", "B", "C"),
    b_transposed: bool = False,
    element_bytes: int = 4,
) -> list[str]:
    """Return what is wrong with the elements of A and B that are read for an element of C.

    In a kernel that uses shared memory, elements that any thread of the block reads count; in others, those of the
    thread that stores the element.

    Args:
        events: Accesses of the block that stores the element, as ``simulator.trace_block`` returns them.
        element: Row and column of the element of C.
        k: Number of steps along K.
        names: Names of the kernel's parameters that point to A, B and C.
        b_transposed: Whether the array of B is (N, K).
        element_bytes: Size of an element of A and B in bytes, of which a vector has several.

    Returns:
        Sentences about elements that are never read, and about elements that a thread reads and does not need. Empty
        if the block does not store the element, or if it reads all that is needed and no more.

    Example:
        >>> from tiledmm import simulator
        >>> text = "__global__ void k(float* A, float* B, float* C) { for (int k = 1; k < 4; ++k) *C += A[k] * B[k]; }"
        >>> a, b, c = (np.ones(shape, np.float32) for shape in ((1, 4), (4, 1), (1, 1)))
        >>> explain_reads(simulator.trace_block(text, 1, 1, (a, b, c)), (0, 0), 4)
        ['thread (0, 0) stores C[0, 0] and never reads A[0, 0] or B[0, 0]']
    """
    name_a, name_b, name_c = names
    stores = [each for each in events if each.kind == "store" and each.array == name_c]
    by = [each.thread for each in stores if each.element == element]
    if not by:
        return []
    thread, row, col = by[-1], *element
    shares = any(each.space == "shared" for each in events)
    reads: dict[str, set[_Index]] = {name_a: set(), name_b: set()}
    for each in events:
        if each.kind in ("load", "copy") and each.array in reads and (shares or each.thread == thread):
            reads[each.array].update(_elements(each, element_bytes))
    needed = {
        name_a: [(row, step) for step in range(k)],
        name_b: [(col, step) if b_transposed else (step, col) for step in range(k)],
    }
    x, y, z = thread
    which = f"thread {(x, y, z) if z else (x, y)}"
    stored = _name(name_c, element)
    who = f"the block of {which}, which stores {stored}," if shares else f"{which} stores {stored} and"
    never = [_ranges(name, [at for at in wanted if at not in reads[name]]) for name, wanted in needed.items()]
    found = [f"{who} never reads {' or '.join(filter(None, never))}"] if any(never) else []
    alone = not shares and len({each.element for each in stores if each.thread == thread}) == 1
    more = [_ranges(name, sorted(reads[name].difference(wanted))) for name, wanted in needed.items()]
    if alone and any(more):
        found.append(f"{who} reads {' and '.join(filter(None, more))}, which it does not need")
    return found


def _elements(event: Event, element_bytes: int) -> Iterator[_Index]:
    """Yield the elements of a load, of which those of a vector are in one row."""
    *front, last = event.element
    for number in range(max(1, event.bytes // element_bytes)):
        yield (*front, last + number)


def _ranges(name: str, elements: Iterable[_Index]) -> str:
    """Return elements as ranges: ``"A[0, 32] to A[0, 36] and 12 more"``; empty without elements."""
    ranges: list[list[_Index]] = []
    for each in elements:
        if ranges and _follows(ranges[-1][-1], each):
            ranges[-1].append(each)
        else:
            ranges.append([each])
    said = [
        _name(name, each[0]) if len(each) == 1 else f"{_name(name, each[0])} to {_name(name, each[-1])}"
        for each in ranges[:_RANGES]
    ]
    rest = sum(map(len, ranges[_RANGES:]))
    return " and ".join([*said, *([f"{rest:,} more of {name}"] if rest else [])])


def _follows(one: _Index, other: _Index) -> bool:
    """Return whether an element is the next one in a row or a column."""
    steps = [after - before for before, after in zip(one, other, strict=True)]
    return sorted(steps) == [*[0] * (len(steps) - 1), 1]


def _name(name: str, index: _Index) -> str:
    return f"{name}[{', '.join(map(str, index))}]"
