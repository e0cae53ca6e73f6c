"""Declarations of kernels, with the types and names of their parameters as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledmm.simulator.build.program.items import Item
from tiledmm.simulator.build.program.tokens import NAME, Token, closing, text_of
from tiledmm.simulator.build.translation.syntax import short_name


@dataclass(frozen=True, slots=True)
class KernelDeclaration:
    """A kernel that a program defines.

    Attributes:
        name: Its name with namespaces, and with template arguments if these are explicit: ``math::scale<float, 16>``.
        template: Parameters of its template, such as ``("typename T", "int TILE")``; empty if it is none, or if the
            name has the arguments.
        parameters: Type and name of each parameter, as they are written: ``("const float*", "A")``.
        line: Line of the preprocessed program.
        location: File and line.
        item: Its declaration.
    """

    name: str
    template: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    line: int
    location: str
    item: Item

    @property
    def short_name(self) -> str:
        """Name without namespaces and template arguments."""
        return short_name(self.name)


def parameter_of(tokens: Sequence[Token]) -> tuple[str, str]:
    """Return the type and the name of a function's parameter; the name is empty if it has none."""
    end = next((at for at, token in enumerate(tokens) if token.text == "="), len(tokens))
    tokens = [token for token in tokens[:end] if token.text not in ("__restrict__", "__restrict", "__grid_constant__")]
    array = next((at for at, token in enumerate(tokens) if token.text == "["), len(tokens))
    suffix = "*" if array < len(tokens) else ""
    if array < len(tokens) and closing(tokens, array) + 1 < len(tokens):  # float A[][N]: a pointer to rows
        suffix = "(*)" + text_of(tokens[closing(tokens, array) + 1 :])
    tokens = tokens[:array]
    named = len(tokens) > 1 and tokens[-1].kind == NAME and tokens[-2].text not in ("::", "unsigned", "const", "struct")
    if named:
        return text_of(tokens[:-1]) + suffix, tokens[-1].text
    return text_of(tokens) + suffix, ""
