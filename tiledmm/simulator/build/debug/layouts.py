"""Layouts of structures: the members of the parameters of a kernel and of variables, from debug information.

As for subscripts, the types are in the debug information of a second compilation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from tiledmm.simulator.build.debug.variables import extent_of, size_of, type_of

#: Kinds of types.
POINTER, SIGNED, UNSIGNED, FLOAT, BOOL, STRUCTURE, ARRAY, OTHER = (
    "pointer", "signed", "unsigned", "float", "bool", "structure", "array", "other",
)  # fmt: skip

_ENCODINGS = {2: BOOL, 4: FLOAT, 5: SIGNED, 6: SIGNED, 7: UNSIGNED, 8: UNSIGNED}
_STRUCTURES = ("DW_TAG_structure_type", "DW_TAG_class_type")


@dataclass(frozen=True, slots=True)
class Layout:
    """A type in memory.

    Attributes:
        type: Name in C++: ``"Matrix"``, ``"float*"``.
        kind: One of the kinds of this module.
        bytes: Size in bytes; 0 if it is unknown.
        members: Members of a structure in order: name, offset in bytes, and layout.
        element: What a pointer points to, without its members, or an array consists of; None for void and others.
        extents: Extents of an array.
        read_only: Whether it is a pointer to const.
    """

    type: str
    kind: str
    bytes: int
    members: tuple[tuple[str, int, Layout], ...] = ()
    element: Layout | None = None
    extents: tuple[int, ...] = ()
    read_only: bool = False

    def path_at(self, offset: int) -> str:
        """Return the path of what is at an offset in bytes, such as ``.rows[2]``; empty if nothing is."""
        if self.kind == ARRAY and self.element is not None and self.element.bytes:
            at, inside = divmod(offset, self.element.bytes)
            text = ""
            for extent in reversed(self.extents[1:]):
                at, rest = divmod(at, extent or 1)
                text = f"[{rest}]{text}"
            return f"[{at}]{text}{self.element.path_at(inside)}"
        for name, begin, each in self.members:
            if begin <= offset < begin + each.bytes:
                return f".{name}{each.path_at(offset - begin)}"
        return ""


def parameter_layouts(library: bytes, function: str, sizes: list[int]) -> tuple[Layout, ...]:
    """Return the layouts of a function's parameters; empty if the debug information has no such function.

    Args:
        library: Contents of the library's file.
        function: Name without namespaces and template arguments.
        sizes: Sizes of the parameters in bytes, by which overloads are told apart.
    """
    for die in _entries(library, "DW_TAG_subprogram"):
        name = _name(_declaration(die)).partition("<")[0]
        kinds = [type_of(each) for each in die.iter_children() if each.tag == "DW_TAG_formal_parameter"]
        if name == function and [size_of(each) for each in kinds] == sizes:
            return tuple(_layout(each) for each in kinds)
    return ()


def variable_layout(library: bytes, variable: str) -> Layout | None:
    """Return the layout of a variable outside of functions; None if the debug information has none of that name."""
    for die in _entries(library, "DW_TAG_variable"):
        if _name(_declaration(die)) == variable and (kind := type_of(_declaration(die))) is not None:
            return _layout(kind)
    return None


def _entries(library: bytes, tag: str) -> Iterator[DIE]:
    elf = ELFFile(BytesIO(library))
    if not elf.get_section_by_name(".debug_info"):
        return
    for part in elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False).iter_CUs():
        yield from (die for die in part.iter_DIEs() if die.tag == tag)


def _declaration(die: DIE) -> DIE:
    """Return the entry with the name of a function or variable that is declared apart."""
    while "DW_AT_name" not in die.attributes:
        attribute = next(
            (each for each in ("DW_AT_specification", "DW_AT_abstract_origin") if each in die.attributes), None
        )
        if attribute is None:
            return die
        die = die.get_DIE_from_attribute(attribute)
    return die


def _name(die: DIE) -> str:
    found = die.attributes.get("DW_AT_name")
    return found.value.decode() if found else ""


def _layout(kind: DIE | None, *, deep: bool = True) -> Layout:
    """Return the layout of a type.

    Args:
        kind: The DWARF entry of the type.
        deep: Whether the members of a structure are listed.
    """
    if kind is None:
        return Layout("void", OTHER, 0)
    if kind.tag == "DW_TAG_base_type":
        encoding = kind.attributes["DW_AT_encoding"].value
        return Layout(_name(kind), _ENCODINGS.get(encoding, OTHER), size_of(kind))
    if kind.tag == "DW_TAG_enumeration_type":
        return Layout(_name(kind), SIGNED, size_of(kind))
    if kind.tag in ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type"):
        target = type_of(kind)
        element = None if target is None else _layout(target, deep=False)
        return Layout(
            f"{element.type if element else 'void'}*", POINTER, 8, element=element, read_only=_points_to_const(kind)
        )
    if kind.tag == "DW_TAG_array_type":
        element = _layout(type_of(kind), deep=deep)
        extents = tuple(extent_of(each) for each in kind.iter_children() if each.tag == "DW_TAG_subrange_type")
        return Layout(
            element.type + "".join(f"[{each}]" for each in extents), ARRAY, size_of(kind), element=element,
            extents=extents,
        )  # fmt: skip
    if kind.tag in _STRUCTURES:
        return Layout(_name(kind), STRUCTURE, size_of(kind), tuple(_members(kind)) if deep else ())
    return Layout(_name(kind), OTHER, size_of(kind))


def _members(kind: DIE) -> Iterator[tuple[str, int, Layout]]:
    for member in kind.iter_children():
        if "DW_AT_data_member_location" not in member.attributes or "DW_AT_bit_size" in member.attributes:
            continue
        offset = member.attributes["DW_AT_data_member_location"].value
        if member.tag == "DW_TAG_inheritance":
            yield from ((name, offset + inner, each) for name, inner, each in _layout(type_of(member)).members)
        elif member.tag == "DW_TAG_member":
            yield _name(member), offset, _layout(type_of(member))


def _points_to_const(pointer: DIE) -> bool:
    kind = pointer.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in pointer.attributes else None
    while kind is not None and kind.tag in ("DW_TAG_typedef", "DW_TAG_volatile_type"):
        kind = kind.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in kind.attributes else None
    return kind is not None and kind.tag == "DW_TAG_const_type"
