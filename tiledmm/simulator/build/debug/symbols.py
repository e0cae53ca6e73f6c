"""Symbols of an ELF file, read at once: pyelftools reads one at a time, which takes twenty times as long."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from elftools.elf.sections import Section

#: Types of symbols: a variable, a function, a variable in shared memory, and a function that is chosen at load time.
OBJECT, FUNCTION, THREAD_LOCAL, INDIRECT = 1, 2, 6, 10
#: The number of the section of undefined symbols.
UNDEFINED = 0

_SYMBOL = struct.Struct("<IBBHQQ")
_LOCAL = 0


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
    names = sections[table["sh_link"]].data() if table else b""
    for at, info, other, section, value, size in _SYMBOL.iter_unpack(table.data()) if table else ():
        name = names[at : names.index(b"\0", at)].decode(errors="replace")
        kind, binding = info & 15, info >> 4
        exported = binding != _LOCAL and section != UNDEFINED and other & 3 == 0
        yield Symbol(name, kind, section, value, size, exported)
