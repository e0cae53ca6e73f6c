"""Structures of integers among a kernel's parameters: their members are sizes, as parameters are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.simulator.build.parameters import OTHER, SIGNED, UNSIGNED, Parameter
from tiledmm.simulator.build.program.items import CLASS, FUNCTION, VARIABLE, members_of
from tiledmm.simulator.build.program.program import Program
from tiledmm.simulator.build.program.tokens import NAME, find, split

_TYPES = {"int": "i4", "int32_t": "i4", "unsigned": "u4", "uint32_t": "u4", "size_t": "u8", "int64_t": "i8"}


@dataclass(frozen=True, slots=True)
class Structure:
    """A parameter that is a structure of integers.

    Attributes:
        at: Number of the parameter.
        dtype: NumPy type with its members.
    """

    at: int
    dtype: np.dtype[Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the structure's members, in order."""
        return self.dtype.names or ()

    def parameters(self, whole: Parameter) -> Iterator[Parameter]:
        """Yield its members as parameters: ``s.m``, ``s.n``, ``s.k``."""
        for name in self.names:
            member = self.dtype[name]
            kind = UNSIGNED if member.kind == "u" else SIGNED
            yield replace(
                whole, name=f"{whole.name}.{name}", type=member.name, kind=kind, bytes=member.itemsize, element_bytes=0
            )

    def value(self, numbers: Sequence[Any]) -> Any:
        """Return the structure with given values of its members."""
        return np.array(tuple(numbers), self.dtype)[()]


def structures_of(program: Program, parameters: Sequence[Parameter]) -> list[Structure] | None:
    """Return the structures among parameters; None if one has members that are not integers.

    Args:
        program: The program.
        parameters: The parameters.
    """
    found = []
    for at, each in enumerate(parameters):
        if each.kind == OTHER:
            dtype = _members(program, each.type.rpartition("::")[2].split()[-1])
            if dtype is None or dtype.itemsize != each.bytes:
                return None
            found.append(Structure(at, dtype))
    return found


def _members(program: Program, name: str) -> np.dtype[Any] | None:
    """Return the NumPy type of a structure of integers; None for any other structure."""
    tokens = program.tokens
    item = next((each for each in program.items if each.kind == CLASS and each.name == name and each.body), None)
    fields = []
    for member in members_of(tokens, item) if item else ():
        if member.kind == FUNCTION:
            continue
        type_name = _TYPES.get(tokens[member.begin].text)
        if member.kind != VARIABLE or type_name is None:
            return None
        for begin, end in split(tokens, member.begin + 1, member.end - 1):
            end = find(tokens, begin, end, lambda token: token.text == "=")
            if end != begin + 1 or tokens[begin].kind != NAME:
                return None
            fields.append((tokens[begin].text, type_name))
    return np.dtype(fields, align=True) if fields else None
