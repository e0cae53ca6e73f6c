"""Launches in host code, as ranges of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledmm.simulator.build.program.tokens import Token, closing, closing_angle, split


@dataclass(frozen=True, slots=True)
class LaunchSite:
    """One ``kernel<<<grid, block, shared bytes>>>(arguments)``; parts are ranges of tokens.

    Attributes:
        kernel: Name of the kernel, without namespaces.
        template: Template arguments, each a range; empty if the launch names none.
        grid, block, shared: Ranges of the parts; an empty one for shared memory that is not named.
        arguments: Range of each argument.
        at: Index of the token ``<<<``.
    """

    kernel: str
    template: tuple[tuple[int, int], ...]
    grid: tuple[int, int]
    block: tuple[int, int]
    shared: tuple[int, int]
    arguments: tuple[tuple[int, int], ...]
    at: int


def launch_at(tokens: Sequence[Token], at: int) -> LaunchSite | None:
    """Return the launch whose ``<<<`` is at an index; None if it is no complete launch."""
    end = next(
        (i for i in range(at, min(len(tokens), at + 500)) if "".join(t.text for t in tokens[i : i + 3]) == ">>>"), 0
    )
    if not end or tokens[end + 3].text != "(":
        return None
    name = at - 1
    template: list[tuple[int, int]] = []
    if tokens[name].text == ">":
        opening = name
        while opening > 0 and closing_angle(tokens, opening, at) != name:
            opening -= 1
        template = split(tokens, opening + 1, name, angles=True)
        name = opening - 1
    parts = [*split(tokens, at + 1, end, angles=True), (0, 0), (0, 0), (0, 0)]
    arguments = split(tokens, end + 4, closing(tokens, end + 3), angles=True)
    return LaunchSite(tokens[name].text, tuple(template), parts[0], parts[1], parts[2], tuple(arguments), at)
