"""Debug information in the DWARF format, versions 3 to 5, as GCC and Clang write them: instructions to source lines.

pyelftools parses it; this module looks up single addresses.
"""

from __future__ import annotations

import functools
import os
from bisect import bisect_right
from dataclasses import dataclass, field

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.lineprogram import LineProgram, LineState
from elftools.dwarf.ranges import BaseAddressEntry

_Ranges = list[tuple[int, int]]  # first address, and the one behind the last


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in the source, as one frame of a chain of (inlined) calls.

    Attributes:
        file: Path as the compiler was given it, relative to the folder that it ran in.
        line: Line, from 1 on; 0 for code without a line, which the compiler added or merged from several lines.
        function: Name of the function that the line is in, with the arguments of a template; empty if unknown.
        column: Column, from 1 on; 0 if unknown.
    """

    file: str
    line: int
    function: str
    column: int = field(default=0, compare=False)


@dataclass(slots=True)
class _Scope:
    """The code of a function, or of one inlined call."""

    function: str
    ranges: _Ranges
    call: tuple[str, int, int]  # file, line and column of an inlined call
    inlined: list[_Scope] = field(default_factory=list)


class Unit:
    """The debug information of one source file and what it includes."""

    def __init__(self, unit: CompileUnit) -> None:
        self._unit = unit
        self._top = unit.get_top_DIE()
        self._ranges = self._code_ranges(self._top)

    def covers(self, address: int) -> bool:
        """Return whether this unit contains the code at an address."""
        return _is_in(address, self._ranges)

    def lines(self, address: int) -> tuple[Frame, ...]:
        """Return the line of an instruction, then the lines of the inlined calls around it, innermost first.

        The result is empty if the address is before all code of the unit.
        """
        begins, places = self._places
        row = bisect_right(begins, address) - 1
        if row < 0:
            return ()
        place = places[row]
        chain: list[_Scope] = []
        scopes = self._functions
        while scope := next((each for each in scopes if _is_in(address, each.ranges)), None):
            chain.insert(0, scope)
            scopes = scope.inlined
        frames = []
        for scope in chain:
            frames.append(Frame(*place[:2], scope.function, place[2]))
            place = scope.call
        return tuple(frames) or (Frame(*place[:2], "", place[2]),)

    @functools.cached_property
    def _files(self) -> list[str]:
        """Paths of the source files by their numbers, which begin at 0 in DWARF 5 and at 1 in older versions."""
        if self._program is None:
            return [""]
        header = self._program.header
        before = [] if header["version"] >= 5 else [""]
        folders = [*before, *map(os.fsdecode, header["include_directory"])]
        base = _text(self._top, "DW_AT_comp_dir")
        files = [os.path.join(base, folders[each.dir_index], os.fsdecode(each.name)) for each in header["file_entry"]]
        return [*before, *files]

    @functools.cached_property
    def _program(self) -> LineProgram | None:
        return self._unit.dwarfinfo.line_program_for_CU(self._unit)

    @functools.cached_property
    def _places(self) -> tuple[list[int], list[tuple[str, int, int]]]:
        """Addresses in ascending order, each with the file, line and column of the code that begins there."""
        sequences: list[list[LineState]] = [[]]
        for entry in self._program.get_entries() if self._program else ():
            if entry.state:
                sequences[-1].append(entry.state)
                if entry.state.end_sequence:
                    sequences.append([])
        # Code that the linker dropped has address 0 and would hide the code that it kept.
        kept = [rows for rows in sequences if rows and 0 < rows[0].address < rows[-1].address]
        rows = [row for rows in sorted(kept, key=lambda rows: rows[0].address) for row in rows]
        return [row.address for row in rows], [(self._files[row.file], row.line, row.column) for row in rows]

    @functools.cached_property
    def _functions(self) -> list[_Scope]:
        functions: list[_Scope] = []

        def read(parent: DIE, inlined: list[_Scope]) -> None:
            for child in parent.iter_children():
                if child.tag not in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine"):
                    read(child, inlined)
                    continue
                place = _number(child, "DW_AT_call_line"), _number(child, "DW_AT_call_column")
                call = self._files[_number(child, "DW_AT_call_file")], *place
                scope = _Scope(_function_name(child), self._code_ranges(child), call)
                # The code of a member function of a local class is not part of the function around the class.
                (functions if child.tag == "DW_TAG_subprogram" else inlined).append(scope)
                read(child, scope.inlined)

        read(self._top, functions)
        return functions

    def _code_ranges(self, die: DIE) -> _Ranges:
        begin = _number(die, "DW_AT_low_pc")
        end = die.attributes.get("DW_AT_high_pc")
        ranges = []
        if (lists := self._unit.dwarfinfo.range_lists()) and "DW_AT_ranges" in die.attributes:
            base = _number(self._top, "DW_AT_low_pc")
            for entry in lists.get_range_list_at_offset(_number(die, "DW_AT_ranges"), self._unit):
                if isinstance(entry, BaseAddressEntry):
                    base = entry.base_address
                else:
                    shift = 0 if entry.is_absolute else base
                    ranges.append((entry.begin_offset + shift, entry.end_offset + shift))
        elif end:
            ranges.append((begin, end.value if end.form.startswith("DW_FORM_addr") else begin + end.value))  # or a size
        return [each for each in ranges if each[0]]  # address 0: the linker dropped it


def _is_in(address: int, ranges: _Ranges) -> bool:
    return any(begin <= address < end for begin, end in ranges)


def _number(die: DIE, attribute: str) -> int:
    found = die.attributes.get(attribute)
    return int(found.value) if found else 0


def _text(die: DIE, attribute: str) -> str:
    found = die.attributes.get(attribute)
    return os.fsdecode(found.value) if found else ""


def _function_name(die: DIE) -> str:
    """Return the name of a function.

    If its entry has no name, it is that of the function's declaration or, for an inlined call, of the function that was
    inlined.
    """
    for reference in ("DW_AT_abstract_origin", "DW_AT_specification"):
        if "DW_AT_name" not in die.attributes and reference in die.attributes:
            return _function_name(die.get_DIE_from_attribute(reference))
    return _text(die, "DW_AT_name")
