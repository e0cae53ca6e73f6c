"""Elements that the threads of a kernel access, as far as its text determines them: subscripts from thread indices."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tiledmm.own_kernels.kernel_text import KernelText, Part, Point
from tiledmm.simulator.build.program.tokens import NAME, closing, find

_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Access:
    """An access to an array by a subscript, or by a pointer and what is added to it.

    Attributes:
        at: Index of the token of the pointer's name.
        parts: Ranges of the expressions whose sum is the element's number, each with the place where it is evaluated.
        rows: Range of the first of two subscripts, which selects a row; None if there is one subscript.
    """

    at: int
    parts: tuple[tuple[Part, int], ...]
    rows: Part | None = None


class Indices(KernelText):
    """Accesses of a kernel to its arrays, whose subscripts can be evaluated for any thread."""

    def accesses(self, parameter: int) -> list[Access]:
        """Return the accesses to the array of a parameter, in the order of the text."""
        return [access for number, access in self._accesses if number == parameter]

    def element(self, access: Access, point: Point, numbers: Mapping[int, int], row_length: int = 0) -> int | None:
        """Return the number of the element that a thread accesses; None if the text does not determine it.

        Args:
            access: The access.
            point: The thread.
            numbers: Values of the kernel's parameters, by number.
            row_length: Elements of a row of an array that has two subscripts.
        """
        found = [self.value(part, at, point, numbers) for part, at in access.parts]
        if access.rows:
            row = self.value(access.rows, access.at, point, numbers)
            found.append(None if row is None else row * row_length)
        return None if None in found else sum(each for each in found if each is not None)

    @functools.cached_property
    def _accesses(self) -> list[tuple[int, Access]]:
        return list(self._find_accesses())

    def _find_accesses(self) -> Iterator[tuple[int, Access]]:
        tokens = self.tokens
        for item in self.functions:
            begin, end = item.body or (0, 0)
            for at in range(begin, end - 1):
                after = tokens[at + 1].text
                if tokens[at].kind != NAME or after not in ("[", "+") or tokens[at - 1].text in (".", "->", "::"):
                    continue
                pointer = self._pointer(tokens[at].text, at)
                if pointer is None:
                    continue
                number, offsets = pointer
                if after == "+":
                    stop = find(tokens, at, end, lambda token: token.text in (")", ",", ";", "]", "?", ":"))
                    yield number, Access(at, (*offsets, ((at + 2, stop), at)))
                    continue
                close = closing(tokens, at + 1)
                if tokens[close + 1].text == "[":
                    last = closing(tokens, close + 1)
                    yield number, Access(at, (*offsets, ((close + 2, last), at)), (at + 2, close))
                else:
                    yield number, Access(at, (*offsets, ((at + 2, close), at)))

    def _pointer(self, name: str, at: int, depth: int = 0) -> tuple[int, tuple[tuple[Part, int], ...]] | None:
        """Return the parameter that a pointer points into, and what is added to it before a token; None for others."""
        definitions, tokens = self.code.definitions, self.tokens
        function = definitions.function_at(at)
        if function is None or function.body is None or depth > _DEEPEST:
            return None
        offsets: tuple[tuple[Part, int], ...] = ()
        since = function.body[0]
        if function == self.kernel and name in self.parameters:
            number = self.parameters.index(name)
            if number not in self.pointers:
                return None
        else:
            definition = next(definitions.of(name, at), None)
            base = self._base(definition.part) if definition else None
            if definition is None or base is None or (tokens[base].text == name and definition.at == at):
                return None
            found = self._pointer(tokens[base].text, min(base, definition.at), depth + 1)
            if found is None:
                return None
            number, offsets = found
            since = max(since, definition.at)
            after, stop = tokens[base + 1].text, definition.part[1]
            if after == "[":
                offsets = (*offsets, ((base + 2, closing(tokens, base + 1)), definition.at))
            elif after == "+" and base + 1 < stop:
                end = find(tokens, base + 2, stop, lambda token: token.text in (")", ","))
                offsets = (*offsets, ((base + 2, end), definition.at))
        for here in range(since, at):
            if tokens[here].text == "+=" and tokens[here - 1].text == name and not self.loops_around(here):
                end = find(tokens, here, at, lambda token: token.text == ";")
                offsets = (*offsets, ((here + 1, end), here))
        return number, offsets

    def _base(self, part: Part) -> int | None:
        """Return the index of the pointer's name in ``(const float4*)&A[i]``, ``A + n`` and similar expressions."""
        tokens, at = self.tokens, part[0]
        while at < part[1]:
            text = tokens[at].text
            if text == "(" and tokens[closing(tokens, at) - 1].text == "*":  # a cast
                at = closing(tokens, at) + 1
            elif text in ("(", "&"):
                at += 1
            elif text in ("reinterpret_cast", "static_cast"):
                at = find(tokens, at, part[1], lambda token: token.text == "(") + 1
            else:
                return at if tokens[at].kind == NAME else None
        return None
