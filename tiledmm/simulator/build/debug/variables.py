"""Types of a kernel's variables: subscripts of elements as a programmer writes them, and local structures and arrays.

The types are in the debug information of a second compilation, which is made if a finding needs it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import PurePath
from typing import NamedTuple

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

_WITH_PARTS = ("DW_TAG_array_type", "DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")
_SKIPPED = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type")
_ON_STACK = 0x91  # DW_OP_fbreg

#: Function that returns, for a byte offset in an array, what follows the array's name: ``"[1][0]"``.
Subscripts = Callable[[int], str]


@functools.lru_cache(maxsize=8)  # as many libraries as typed_library keeps
def subscripts_of(library: bytes) -> dict[str, Subscripts]:
    """Return functions that map a byte offset in a variable to subscripts, by the variable's name.

    There is one for each array or structure in the debug information of a library.

    Args:
        library: Contents of the library's file, with the types of variables in its debug information.
    """
    found: dict[str, Subscripts] = {}
    elf = ELFFile(BytesIO(library))
    if not elf.get_section_by_name(".debug_info"):
        return found
    for part in elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False).iter_CUs():
        for die in part.iter_DIEs():
            if die.tag != "DW_TAG_variable" or "DW_AT_name" not in die.attributes:
                continue
            kind = type_of(die)
            if kind and kind.tag in ("DW_TAG_array_type", "DW_TAG_structure_type", "DW_TAG_union_type"):
                name = die.attributes["DW_AT_name"].value.decode()
                found.setdefault(name, lambda offset, kind=kind: _subscripts(kind, offset))  # type: ignore[misc]
    return found


def _subscripts(kind: DIE | None, offset: int) -> str:
    """Return the subscripts and members that lead to a byte of a value, such as ``"[2].x"``.

    Args:
        kind: The DWARF entry of the value's type.
        offset: Offset of the byte in the value.

    Returns:
        The subscripts and members; an empty string if there are none, or if the type is unknown.
    """
    if kind is None:
        return ""
    if kind.tag == "DW_TAG_array_type":
        element = type_of(kind)
        size = size_of(element)
        extents = [extent_of(each) for each in kind.iter_children() if each.tag == "DW_TAG_subrange_type"]
        if not size:
            return ""
        rest, text = offset // size, ""
        for extent in reversed(extents[1:]):
            text, rest = f"[{rest % extent}]{text}" if extent else text, rest // (extent or 1)
        return f"[{rest}]{text}{_subscripts(element, offset % size)}"
    if kind.tag in ("DW_TAG_structure_type", "DW_TAG_class_type"):
        for member in kind.iter_children():
            if member.tag != "DW_TAG_member" or "DW_AT_data_member_location" not in member.attributes:
                continue
            begin, inner = member.attributes["DW_AT_data_member_location"].value, type_of(member)
            if begin <= offset < begin + size_of(inner) and "DW_AT_name" in member.attributes:
                return f".{member.attributes['DW_AT_name'].value.decode()}{_subscripts(inner, offset - begin)}"
    return ""


def type_of(die: DIE) -> DIE | None:
    """Return the type of a variable or member, or of an array's elements, as its DWARF entry.

    Typedefs, ``const``, ``volatile`` and ``restrict`` are skipped. None if the type is unknown.
    """
    kind = die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None
    while kind is not None and kind.tag in _SKIPPED:
        kind = kind.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in kind.attributes else None
    return kind


def size_of(kind: DIE | None) -> int:
    """Return the size of a type in bytes; 0 if it is unknown."""
    if kind is None:
        return 0
    if "DW_AT_byte_size" in kind.attributes:
        return int(kind.attributes["DW_AT_byte_size"].value)
    if kind.tag == "DW_TAG_array_type":
        size = size_of(type_of(kind))
        for each in kind.iter_children():
            if each.tag == "DW_TAG_subrange_type":
                size *= extent_of(each)
        return size
    return 8 if kind.tag == "DW_TAG_pointer_type" else 0


def extent_of(subrange: DIE) -> int:
    """Return the number of elements along one dimension of an array; 0 if the launch gives it."""
    if "DW_AT_count" in subrange.attributes:
        return int(subrange.attributes["DW_AT_count"].value)
    if "DW_AT_upper_bound" in subrange.attributes:
        value = subrange.attributes["DW_AT_upper_bound"].value
        return int(value) + 1 if isinstance(value, int) else 0
    return 0


class LocalVariable(NamedTuple):
    """A variable that is local to a function.

    Attributes:
        name: Its name.
        declared: The line that declares it.
        has_parts: Whether it is an array or a structure.
    """

    name: str
    declared: int
    has_parts: bool = False


def local_variables_of(library: bytes, file: str) -> list[LocalVariable]:
    """Return the local variables of functions.

    Args:
        library: Contents of a library's file, with the types of variables in its debug information.
        file: Name of the source file whose variables are returned.
    """
    elf = ELFFile(BytesIO(library))
    if not elf.get_section_by_name(".debug_info"):
        return []
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
    return list(dict.fromkeys(each for unit in dwarf.iter_CUs() for each in _of_unit(unit, file)))


def _of_unit(unit: CompileUnit, file: str) -> Iterator[LocalVariable]:
    program = unit.dwarfinfo.line_program_for_CU(unit)
    files = [PurePath(each.name.decode()).name for each in program["file_entry"]] if program else []
    first = 0 if program and program["version"] >= 5 else 1
    for die in unit.iter_DIEs():
        if die.tag != "DW_TAG_variable" or not {"DW_AT_name", "DW_AT_decl_file", "DW_AT_decl_line"} <= {
            *die.attributes
        }:
            continue
        at = die.attributes["DW_AT_decl_file"].value - first
        if not (0 <= at < len(files) and files[at] == file and _is_local(die)):
            continue
        kind, line = type_of(die), int(die.attributes["DW_AT_decl_line"].value)
        has_parts = kind is not None and kind.tag in _WITH_PARTS
        yield LocalVariable(die.attributes["DW_AT_name"].value.decode(), line, has_parts)


def _is_local(die: DIE) -> bool:
    """Return whether a variable is local to a function: on the stack, or without a location.

    Variables of inlined functions have no location in their own entry.
    """
    if "DW_AT_location" not in die.attributes:
        return "DW_AT_external" not in die.attributes and "DW_AT_const_value" not in die.attributes
    place = die.attributes["DW_AT_location"].value
    return isinstance(place, list) and place[:1] == [_ON_STACK]
