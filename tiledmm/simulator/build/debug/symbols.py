"""Sections and symbols of an ELF file, each table read at once: pyelftools reads one field at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Type of a section of relocations with addends.
RELOCATIONS = 4
#: Flags of a section: data that is written, and instructions.
WRITTEN, INSTRUCTIONS = 1, 4
#: Types of symbols: a variable, a function, a variable in shared memory, and a function that is chosen at load time.
OBJECT, FUNCTION, THREAD_LOCAL, INDIRECT = 1, 2, 6, 10
#: The number of the section of undefined symbols.
UNDEFINED = 0

_HEADER = struct.Struct("<40xQ12xHH")
_SECTION = struct.Struct("<IIQQQQII16x")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_EMPTY = 8  # the type of a section that is not in the file
_LOCAL = 0


@dataclass(frozen=True, slots=True)
class Section:
    """A section of an object file or a library.

    Attributes:
        name: Its name.
        kind: Its type: ``RELOCATIONS`` or another.
        flags: ``WRITTEN``, ``INSTRUCTIONS`` and others.
        address: Its first address in a library.
        size: Its size in bytes.
        link, info: Numbers of other sections, whose meaning depends on the type.
        data: Its contents; empty if they are not in the file.
    """

    name: str
    kind: int
    flags: int
    address: int
    size: int
    link: int
    info: int
    data: bytes

    def relocations(self) -> list[tuple[int, int]]:
        """Return the symbol's number and the addend of each entry in a section of relocations."""
        return [(info >> 32, addend) for _, info, addend in _RELOCATION.iter_unpack(self.data)]


def sections_of(file: bytes) -> list[Section]:
    """Return the sections of a 64-bit, little-endian ELF file.

    Args:
        file: Contents of the file.
    """
    begin, count, names = _HEADER.unpack_from(file)
    rows = list(_SECTION.iter_unpack(file[begin : begin + count * _SECTION.size]))
    texts = file[rows[names][4] :]
    return [
        Section(
            _text(texts, at), kind, flags, address, size, link, info,
            b"" if kind == _EMPTY else file[offset : offset + size],
        )
        for at, kind, flags, address, offset, size, link, info in rows
    ]  # fmt: skip


def _text(texts: bytes, at: int) -> str:
    return texts[at : texts.index(b"\0", at)].decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of an object file or a library.

    Attributes:
        name: Its name.
        kind: Its type: ``OBJECT``, ``FUNCTION``, ``THREAD_LOCAL``, ``INDIRECT`` or another.
        section: Number of its section; ``UNDEFINED``, or a number beyond all sections for an absolute value.
        value: Its offset in the section, or its address in a library.
        bytes: Its size.
        is_exported: Whether other libraries would find it.
    """

    name: str
    kind: int
    section: int
    value: int
    bytes: int
    is_exported: bool

    @property
    def is_thread_local(self) -> bool:
        """Whether it is a variable in shared memory."""
        return self.kind == THREAD_LOCAL


def symbols_of(sections: Sequence[Section]) -> Iterator[Symbol]:
    """Yield the symbols of a file in the order of its table; local ones come first.

    Args:
        sections: All sections of the file.
    """
    table = next((each for each in sections if each.name == ".symtab"), None)
    names = sections[table.link].data if table else b""
    for at, info, other, section, value, size in _SYMBOL.iter_unpack(table.data) if table else ():
        name = _text(names, at)
        kind, binding = info & 15, info >> 4
        exported = binding != _LOCAL and section != UNDEFINED and other & 3 == 0
        yield Symbol(name, kind, section, value, size, exported)
