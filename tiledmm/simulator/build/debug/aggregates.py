"""A thread's own structures and arrays, by name and line. Compilers do not say which are read before they are set."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import PurePath

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from tiledmm.simulator.build.debug.elements import type_of

_AGGREGATES = ("DW_TAG_array_type", "DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")
_ON_STACK = 0x91  # DW_OP_fbreg


def aggregates_of(library: bytes, file: str) -> list[tuple[str, int]]:
    """Variables of functions that are structures or arrays, and the lines that declare them.

    Args:
        library: With the types of variables in its debug information.
        file: Name of the file whose variables these are.
    """
    elf = ELFFile(BytesIO(library))
    if not elf.get_section_by_name(".debug_info"):
        return []
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
    return list(dict.fromkeys(each for unit in dwarf.iter_CUs() for each in _of_unit(unit, file)))


def _of_unit(unit: CompileUnit, file: str) -> Iterator[tuple[str, int]]:
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
        kind = type_of(die)
        if kind is not None and kind.tag in _AGGREGATES:
            yield die.attributes["DW_AT_name"].value.decode(), int(die.attributes["DW_AT_decl_line"].value)


def _is_local(die: DIE) -> bool:
    """Whether a variable is on the stack. Those of inlined functions have no place of their own."""
    if "DW_AT_location" not in die.attributes:
        return "DW_AT_external" not in die.attributes and "DW_AT_const_value" not in die.attributes
    place = die.attributes["DW_AT_location"].value
    return isinstance(place, list) and place[:1] == [_ON_STACK]
