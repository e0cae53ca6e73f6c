"""Structures as Python's dicts and tuples: the bytes that a kernel gets for them.

A pointer member takes a NumPy array, or None for a null pointer; the bytes then hold the array's address.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.simulator.build.debug import layouts
from tiledmm.simulator.build.debug.layouts import Layout
from tiledmm.simulator.build.parameters import BOOL, FLOAT, OTHER, POINTER, SIGNED, UNSIGNED, Parameter

_KINDS = {
    layouts.POINTER: POINTER, layouts.SIGNED: SIGNED, layouts.UNSIGNED: UNSIGNED, layouts.FLOAT: FLOAT,
    layouts.BOOL: BOOL,
}  # fmt: skip


def argument_bytes(parameter: Parameter, value: Any, layout: Callable[[], Layout | None], *, exact: bool) -> bytes:
    """Return the bytes of an argument that is not an array.

    Args:
        parameter: The parameter.
        value: What ``Parameter.scalar`` takes; for a structure also a dict of its members, a sequence of them in order,
            or a dataclass's instance.
        layout: Function that returns the parameter's layout in memory.
        exact: Whether it must have the size that CuPy would pass for it.

    Raises:
        OperandTypeError: If a value does not fit the parameter or the member that it is for.
        ConfigError: If a member is missing, or unknown.
    """
    if parameter.kind == OTHER and not exact and _is_structure(value) and (known := layout()) is not None:
        return structure_bytes(known, value, parameter.name)
    return bytes(parameter.scalar(value, exact=exact))


def pointer_table(parameter: Parameter, arrays: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the addresses of arrays, for a parameter such as ``float**``; that of None is null.

    Raises:
        OperandTypeError: If one is no array.
    """
    for at, each in enumerate(arrays):
        if not (each is None or isinstance(each, np.ndarray)):
            raise OperandTypeError(
                f"parameter {parameter.name} is a {parameter.type}; got {type(each).__name__} as element {at}: pass a "
                "list of arrays, or an array of their addresses"
            )
    return np.array([0 if each is None else each.ctypes.data for each in arrays], np.uint64)


def structure_bytes(layout: Layout, value: Any, name: str) -> bytes:
    """Return the bytes of a structure, an array or a number.

    Args:
        layout: Its layout in memory.
        value: A dict of its members, a sequence of them in order, a dataclass's instance, or what fits one member.
        name: Name in messages.

    Raises:
        OperandTypeError: If a value does not fit its member.
        ConfigError: If a member is missing, or unknown.
    """
    into = bytearray(layout.bytes)
    _fill(into, 0, layout, value, name)
    return bytes(into)


def _is_structure(value: Any) -> bool:
    is_instance = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return isinstance(value, (Mapping, tuple, list)) or is_instance


def _fill(into: bytearray, at: int, layout: Layout, value: Any, name: str) -> None:
    if layout.kind == layouts.STRUCTURE and _is_structure(value):
        for (member, offset, each), one in zip(layout.members, _members(layout, value, name), strict=True):
            _fill(into, at + offset, each, one, f"{name}.{member}")
        return
    if layout.kind == layouts.ARRAY and layout.element is not None:
        raw = _elements(layout, layout.element, value, name)
    elif layout.kind == layouts.POINTER and isinstance(value, np.ndarray):
        parameter = _parameter(layout, name)
        parameter.check_array(value)
        raw = np.uint64(value.ctypes.data).tobytes()
    else:
        raw = bytes(_parameter(layout, name).scalar(value, exact=False))
    into[at : at + layout.bytes] = raw


def _members(layout: Layout, value: Any, name: str) -> list[Any]:
    """Return the values of a structure's members, in their order."""
    names = [member for member, _, _ in layout.members]
    wanted = f"{name} is a {layout.type or 'structure'} with the members {', '.join(names)}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise ConfigError(f"{wanted}; got {', '.join(map(str, value))}")
        return [value[each] for each in names]
    if len(value) != len(names):
        raise ConfigError(f"{wanted}; got {len(value)} values")
    return list(value)


def _elements(layout: Layout, element: Layout, value: Any, name: str) -> bytes:
    """Return the bytes of an array: of a NumPy array of the same size, or of a sequence of its elements."""
    if isinstance(value, np.ndarray):
        _parameter(Layout(layout.type, layouts.POINTER, 8, element=element), name).check_array(value)
        if value.nbytes != layout.bytes:
            raise OperandTypeError(
                f"{name} is a {layout.type} of {layout.bytes:,} bytes; got an array of {value.nbytes:,} bytes"
            )
        return value.tobytes()
    count = layout.bytes // element.bytes if element.bytes else 0
    flat = _flat(value, len(layout.extents))
    if len(flat) != count:
        raise OperandTypeError(f"{name} is a {layout.type} of {count:,} elements; got {len(flat):,}")
    return b"".join(structure_bytes(element, each, f"{name}[{at}]") for at, each in enumerate(flat))


def _flat(value: Any, depth: int) -> list[Any]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return [value]
    if depth <= 1 or not any(isinstance(each, Sequence) for each in value):
        return list(value)
    return [leaf for each in value for leaf in _flat(each, depth - 1)]


def _parameter(layout: Layout, name: str) -> Parameter:
    element = layout.element
    return Parameter(
        name,
        layout.type,
        _KINDS.get(layout.kind, OTHER),
        layout.bytes,
        layout.read_only,
        OTHER if element is None else _KINDS.get(element.kind, OTHER) if element.kind != layouts.POINTER else OTHER,
        0 if element is None else element.bytes,
        0,
    )
