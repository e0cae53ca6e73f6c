"""Text of a kernel as tokens: names, declarations, comparisons, loops, and values of expressions."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tiledmm.own_kernels.chosen_kernel import Chosen, template_arguments
from tiledmm.simulator.build.program.expressions import Value
from tiledmm.simulator.build.program.launches import HostCode
from tiledmm.simulator.build.program.program import Program
from tiledmm.simulator.build.program.tokens import closing, find, split

_Three: TypeAlias = tuple[int, int, int]

#: Range of the tokens of an expression.
Part: TypeAlias = tuple[int, int]

# Names of a thread's position in CUDA and cooperative groups, by the attributes of ``Point``.
_BUILT_IN = {
    "blockIdx": "block", "group_index()": "block", "threadIdx": "thread", "thread_index()": "thread",
    "blockDim": "dim", "group_dim()": "dim", "dim_threads()": "dim", "gridDim": "grid", "dim_blocks()": "grid",
}  # fmt: skip
_COMPARED = {"<", ">", "<=", ">="}


@dataclass(frozen=True, slots=True)
class Point:
    """A thread, with everything on which its indices depend.

    Attributes:
        block, thread: Its indices.
        dim, grid: Numbers of threads per block, and of blocks.
        loops: Loop variables whose values are not those of the first iteration.
    """

    block: _Three = (0, 0, 0)
    thread: _Three = (0, 0, 0)
    dim: _Three = (1, 1, 1)
    grid: _Three = (64, 64, 64)
    loops: tuple[tuple[tuple[int, str], int], ...] = ()

    def built_in(self, name: str) -> Value:
        """Return the value of one of CUDA's own variables; None for another name."""
        if name == "warpSize":
            return 32
        attribute = _BUILT_IN.get(name.rpartition(".")[2])
        found: Value = getattr(self, attribute) if attribute else None
        return found


@dataclass(frozen=True, slots=True)
class Loop:
    """A ``for`` loop that counts.

    Attributes:
        key: First token of the function that contains it, and its variable.
        first: Range of the expression of the variable's first value.
        step: Range of the expression that is added in each iteration; None for 1.
        limit: Range of the expression that the variable is compared with; None if there is no comparison.
        at: Index of a token in its head.
        body: Range of its statement.
    """

    key: tuple[int, str]
    first: Part
    step: Part | None
    limit: Part | None
    at: int
    body: Part


class KernelText:
    """The text of a kernel, and of the functions that it may call.

    Args:
        program: The program.
        chosen: The kernel.
        members: Members of structures among its parameters, ``s.m``, which are numbered after the parameters.
    """

    def __init__(self, program: Program, chosen: Chosen, members: Sequence[str] = ()) -> None:
        self.tokens = program.tokens
        self.functions = program.device_functions(chosen.declaration)
        self.kernel = chosen.declaration.item
        self.parameters = [*(name for _, name in chosen.declaration.parameters), *members]
        self.pointers = {at for at, (kind, _) in enumerate(chosen.declaration.parameters) if "*" in kind}
        self.code = HostCode(program.tokens, program.items)  # its own, because variables have the device's values here
        arguments = template_arguments(program, chosen).items()
        self._template: dict[tuple[int, str], Value] = {
            (-1, name): int(each) for name, each in arguments if each.isdigit()
        }

    def mentions(self, name: str) -> bool:
        """Return whether a name occurs in the kernel, or in a function that it may call."""
        return any(name in item.mentions for item in self.functions)

    def reads(self, attribute: str, axis: str) -> bool:
        """Return whether the text reads an index along an axis: ``threadIdx.y`` for ``"thread"`` and ``"y"``."""
        words = {each.removesuffix("()") for each, named in _BUILT_IN.items() if named == attribute}
        tokens, places = self.tokens, [at for item in self.functions for at in range(*(item.body or (0, 0)))]
        # If the index is copied as a whole, any member of this name may be the copy's.
        is_copied = any(tokens[at].text in words and tokens[at + 1].text != "." for at in places)
        return any(
            tokens[at].text == axis and tokens[at - 1].text == "." and (is_copied or tokens[at - 2].text in words)
            for at in places
        )

    def value(self, part: Part, at: int, point: Point, numbers: Mapping[int, int] | None = None) -> int | None:
        """Return the value of an expression; None if the text does not determine it.

        Args:
            part: Range of its tokens.
            at: Index of a token of the function that contains it.
            point: The thread.
            numbers: Values of the kernel's parameters, by number; 0 for pointers.
        """
        known = {(self.kernel.begin, self.parameters[at]): value for at, value in (numbers or {}).items()}
        self.code.unknown = point.built_in
        found = self.code.value(part, at, {**self._template, **known, **dict(point.loops)})
        return int(found) if isinstance(found, (int, float)) else None

    @functools.cached_property
    def loops(self) -> list[Loop]:
        """Counting loops, in the order of the text."""
        return [
            loop
            for item in self.functions
            for at in range(*(item.body or (0, 0)))
            if self.tokens[at].text == "for" and (loop := self._loop(at, item.begin))
        ]

    def loops_around(self, at: int) -> list[Loop]:
        """Return the counting loops around a token."""
        return [loop for loop in self.loops if loop.body[0] <= at < loop.body[1]]

    def pass_of(self, loop: Loop, point: Point, numbers: Mapping[int, int], count: int = 1) -> int | None:
        """Return the value of a loop's variable after ``count`` iterations; None if the text does not determine it."""
        first = self.value(loop.first, loop.at, point, numbers)
        step = 1 if loop.step is None else self.value(loop.step, loop.at, point, numbers)
        return None if first is None or step is None else first + count * step

    @functools.cached_property
    def shared_arrays(self) -> list[list[int | None]]:
        """Extents of each array in static shared memory; None for an extent that the text does not determine."""
        found = []
        for item in self.functions:
            for at in range(*(item.body or (0, 0))):
                if self.tokens[at].text != "__shared__":
                    continue
                end = find(self.tokens, at, len(self.tokens), lambda token: token.text == ";")
                for a, b in split(self.tokens, at, end, angles=True):
                    opening = find(self.tokens, a, b, lambda token: token.text == "[")
                    extents: list[int | None] = []
                    while opening < b and self.tokens[opening].text == "[":
                        close = closing(self.tokens, opening)
                        extents.append(self.value((opening + 1, close), opening, Point()))
                        opening = close + 1
                    found += [extents] if extents else []
        return found

    @functools.cached_property
    def launch_bound(self) -> int | None:
        """Number of threads in ``__launch_bounds__``; None without it."""
        for at in range(self.kernel.begin, self.kernel.parameters[0]):
            if self.tokens[at].text == "__launch_bounds__":
                parts = split(self.tokens, at + 2, closing(self.tokens, at + 1))
                return self.value(parts[0], self.kernel.begin, Point())
        return None

    def compares(self, names: set[str]) -> bool:
        """Return whether the kernel compares anything with a name outside of the heads of loops.

        Args:
            names: The names; empty for any number.
        """
        for item in self.functions:
            at, end = item.body or (0, 0)
            while at < end:
                if self.tokens[at].text in ("for", "while") and self.tokens[at + 1].text == "(":
                    at = closing(self.tokens, at + 1) + 1
                    continue
                if self.tokens[at].text in _COMPARED and self._is_beside(at, names):
                    return True
                at += 1
        return False

    def _is_beside(self, at: int, names: set[str]) -> bool:
        """Return whether an operand of a comparison is one of the names, or is a number if there are no names."""
        for step, brackets in ((1, "("), (-1, ")")):
            here = at + step
            while self.tokens[here].text == brackets or self.tokens[here].text in ("int", "size_t", "unsigned"):
                here += step
            word = self.tokens[here]
            if word.text in names if names else word.text.isdigit():
                return True
        return False

    def _loop(self, at: int, begin: int) -> Loop | None:
        """Return the loop whose ``for`` is at an index; None if its variable is not increased by a sum."""
        tokens, close = self.tokens, closing(self.tokens, at + 1)
        semicolons = [here for here in range(at + 2, close) if tokens[here].text == ";"]
        assigned = find(tokens, at + 2, close, lambda token: token.text == "=")
        if len(semicolons) != 2 or assigned >= semicolons[0]:
            return None
        name = tokens[assigned - 1].text
        stop = find(tokens, assigned, semicolons[0], lambda token: token.text == ",")
        step: Part | None = None
        for here in range(semicolons[1] + 1, close):
            if tokens[here].text == "+=" and tokens[here - 1].text == name:
                step = here + 1, find(tokens, here, close, lambda token: token.text == ",")
            elif tokens[here].text in ("-=", "--", "*=", "/=", ">>=", "<<="):
                return None
        limit: Part | None = None
        here = semicolons[0] + 1
        if tokens[here].text == name and tokens[here + 1].text in ("<", "!="):
            limit = here + 2, find(tokens, here, semicolons[1], lambda token: token.text in ("&&", "||"))
        end = self.code.definitions.end_of_statement(close + 1)
        return Loop((begin, name), (assigned + 1, stop), step, limit, at, (close + 1, end))
