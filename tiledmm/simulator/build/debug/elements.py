"""Elements of a kernel's arrays as a programmer writes them: ``As[1][0][1]``, ``stage[1].a[3]``.

The types of variables are in debug information, of a second compilation, which is made where a finding needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

#: The element at an offset in an array, in bytes: what follows the array's name.
Subscripts = Callable[[int], str]


def subscripts_of(library: bytes) -> dict[str, Subscripts]:
    """For each array in the debug information of a library, by its name, the subscripts of an offset."""
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
    """The subscripts and members that lead to a byte of a value of some type."""
    if kind is None:
        return ""
    if kind.tag == "DW_TAG_array_type":
        element = type_of(kind)
        size = _size(element)
        extents = [_extent(each) for each in kind.iter_children() if each.tag == "DW_TAG_subrange_type"]
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
            if begin <= offset < begin + _size(inner) and "DW_AT_name" in member.attributes:
                return f".{member.attributes['DW_AT_name'].value.decode()}{_subscripts(inner, offset - begin)}"
    return ""


def type_of(die: DIE) -> DIE | None:
    """The type of a variable, member or array, without its names and qualifiers."""
    kind = die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None
    while kind is not None and kind.tag in ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type"):
        kind = kind.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in kind.attributes else None
    return kind


def _size(kind: DIE | None) -> int:
    """Bytes of a type; 0 if unknown."""
    if kind is None:
        return 0
    if "DW_AT_byte_size" in kind.attributes:
        return int(kind.attributes["DW_AT_byte_size"].value)
    if kind.tag == "DW_TAG_array_type":
        size = _size(type_of(kind))
        for each in kind.iter_children():
            if each.tag == "DW_TAG_subrange_type":
                size *= _extent(each)
        return size
    return 8 if kind.tag == "DW_TAG_pointer_type" else 0


def _extent(subrange: DIE) -> int:
    """Elements of a dimension; 0 if the launch gives them."""
    if "DW_AT_count" in subrange.attributes:
        return int(subrange.attributes["DW_AT_count"].value)
    if "DW_AT_upper_bound" in subrange.attributes:
        value = subrange.attributes["DW_AT_upper_bound"].value
        return int(value) + 1 if isinstance(value, int) else 0
    return 0
