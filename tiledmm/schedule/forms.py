"""Forms of prepared operands: the launches of a schedule that prepare one operand, apart from those of each product.

A form depends on the operand and on the kernel that reads it, but not on the other operand. So an operand that is
multiplied again and again keeps its forms, and the schedules of its products are without these launches.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from tiledmm.kernels.launches import Form, Launch, Reuse, Schedule, Scratch
from tiledmm.kernels.operands.copies import PreparedOperands
from tiledmm.kernels.operands.operand_scan import SCAN

_forms: WeakValueDictionary[Any, Form] = WeakValueDictionary()
_lock = threading.Lock()


def divide(ready: PreparedOperands, prepared: Sequence[bool]) -> tuple[PreparedOperands, tuple[Reuse, ...]]:
    """Divide the launches that prepare a product's operands into those of forms, and those of each product.

    Args:
        ready: The operands as the product's kernel reads them.
        prepared: Whether A, and B, keep their forms.

    Returns:
        The operands with the launches and scratch memory that each product needs, and the forms in place of the others.
    """
    found = []
    for operand, keeps in enumerate(prepared):
        if keeps and (own := _launches_to(ready.names[operand], ready.launches)):
            scan = _scan_of(own, ready)
            found.append(Reuse(operand, _form_of(own, ready.scratch, scan, "AB"[operand]), scan))
            ready = replace(ready, launches=tuple(each for each in ready.launches if not _is_one_of(each, own)))
    if not found:
        return ready, ()
    names = {each.operands[-1] for each in ready.launches}
    if any(each.scan for each in ready.launches):
        names.add(SCAN)
    return replace(ready, scratch=tuple(each for each in ready.scratch if each.name in names)), tuple(found)


_Base = TypeVar("_Base")


def places_of_scan(
    schedule: Schedule, launch: Launch, places: Mapping[str, tuple[_Base, int]]
) -> list[tuple[_Base, int]]:
    """Return the places of both operands' scans for a launch: in the product's scratch memory, or in forms.

    Args:
        schedule: The product's schedule.
        launch: One of its launches.
        places: Place of each array of scratch memory and of forms, by name: the memory that holds it, and its offset
            there in bytes.

    Returns:
        The places in the same form; an empty list for a launch that neither writes nor reads the operand scan.
    """
    found = []
    for begin in launch.scan:
        held = next((each for each in schedule.forms if begin in each.scan), None)
        name, start = (SCAN, 0) if held is None or held.form.scan is None else (held.form.scan.name, held.scan.start)
        base, offset = places[name]
        found.append((base, offset + begin - start))
    return found


def _launches_to(name: str, launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """Return the launches that write an array, and those that write what they read."""
    names, found = {name}, list[Launch]()
    for each in reversed(launches):
        if each.operands[-1] in names:
            names.add(each.operands[0])
            found.append(each)
    return tuple(reversed(found))


def _is_one_of(launch: Launch, launches: Sequence[Launch]) -> bool:
    return any(launch is each for each in launches)


def _scan_of(own: Sequence[Launch], ready: PreparedOperands) -> range:
    """Return the range of bytes of the product's operand scan that some launches write; an empty range for none."""
    begins = [each.scan[0] for each in own if each.scan]
    if not begins:
        return range(0)
    end = next(each.bytes for each in ready.scratch if each.name == SCAN)
    return range(begins[0], min((each for each in ready.scan if each > begins[0]), default=end))


def _form_of(own: Sequence[Launch], scratch: Sequence[Scratch], scan: range, letter: str) -> Form:
    names = {each.operands[-1] for each in own}
    arrays = tuple(each for each in scratch if each.name in names)
    launches = tuple(replace(each, scan=(0, 0)) if each.scan else each for each in own)
    held = None
    if scan:
        whole = next(each for each in scratch if each.name == SCAN)
        held = Scratch(f"{SCAN} of {letter}", (len(scan),), len(scan), whole.element)
    with _lock:
        return _forms.setdefault((tuple(map(_key, launches)), arrays, held), Form(launches, arrays, held))


def _key(launch: Launch) -> tuple[Any, ...]:
    """Return everything on which the effect of a launch depends, as a tuple for a dict's key."""
    return launch.spec, launch.blocks, launch.kernel_args.tobytes(), launch.operands, launch.begins, launch.scan
