"""The launches in a program's host code: their kernel, grid, block and arguments, with the values that these have."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tiledmm.simulator.build.program.definitions import Definition, Definitions
from tiledmm.simulator.build.program.expressions import SIZES, Expression, Value
from tiledmm.simulator.build.program.items import Item
from tiledmm.simulator.build.program.launch_site import LaunchSite, launch_at
from tiledmm.simulator.build.program.tokens import (
    NAME,
    Token,
    closing,
    closing_angle,
    split,
    text_of,
)

#: Values that replace those of the text, by the range of tokens of the function and by name.
Overrides: TypeAlias = Mapping[tuple[int, str], Value]

_ALLOCATIONS = ("cudaMalloc", "cudaMallocManaged", "cudaMallocAsync", "hipMalloc")
_DEEPEST = 8


class HostCode:
    """The host code of a program, with the values of what it launches as far as these follow from the text.

    Args:
        tokens: Tokens of the preprocessed program.
        items: Its declarations.
    """

    def __init__(self, tokens: Sequence[Token], items: Sequence[Item]) -> None:
        self._tokens = tokens
        #: Function that returns the value of a variable of which the text does not say it.
        self.unknown: Callable[[str], Value] = lambda name: None
        #: Where variables get their values.
        self.definitions = Definitions(tokens, items)

    @functools.cached_property
    def launches(self) -> tuple[LaunchSite, ...]:
        """Launches by ``<<<>>>``, in the order of the text."""
        found = (launch_at(self._tokens, at) for at, token in enumerate(self._tokens) if token.text == "<<<")
        return tuple(each for each in found if each is not None)

    def is_skipped(self, site: LaunchSite) -> bool:
        """Return whether the conditions around a launch say that it does not run: ``if (block_size == 16)``."""
        function = self.definitions.function_at(site.at)
        for at in range(function.body[0], site.at) if function and function.body else ():
            if self._tokens[at].text != "if" or self._tokens[at + 1].text != "(":
                continue
            close = closing(self._tokens, at + 1)
            then = self.definitions.end_of_statement(close + 1)
            other = self.definitions.end_of_statement(then + 1) if self._tokens[then].text == "else" else then
            condition = self.value((at + 2, close), at)
            if condition is not None and at < site.at < other and bool(condition) != (site.at < then):
                return True
        return False

    def has_name(self, pattern: re.Pattern[str]) -> bool:
        """Return whether a name of the program has a match of a pattern."""
        return any(token.kind == NAME and pattern.search(token.text) for token in self._tokens)

    def large_literals(self, site: LaunchSite, value: int) -> list[tuple[int, str]]:
        """Return the keys of ``Overrides`` for variables around a launch that are written as larger numbers."""
        known = self.definitions.literals(site.at)
        values = {key: self._defined(each, {}, 0) for key, each in known.items()}
        return [key for key, each in values.items() if isinstance(each, int) and each > value]

    def template_argument(self, name: str, at: int) -> str:
        """Return the type that a template parameter of the function around a token has where it is instantiated.

        Empty if the text instantiates it nowhere: neither ``template void run<float>(...)`` nor ``run<float>(...)``.
        """
        found = self._instantiated(name, at)
        return self.text(found[0]) if found else ""

    def _instantiated(self, name: str, at: int) -> tuple[tuple[int, int], int] | None:
        """Return the range of a template argument where the function around a token is instantiated, and that place."""
        function = self.definitions.function_at(at)
        if function is None or function.template is None:
            return None
        names = [
            self.definitions.name_of_parameter(part) for part in split(self._tokens, *function.template, angles=True)
        ]
        for here, token in enumerate(self._tokens[:-1] if name in names else ()):
            if token.text == function.name and self._tokens[here + 1].text == "<":
                close = closing_angle(self._tokens, here + 1, len(self._tokens))
                arguments = split(self._tokens, here + 2, close, angles=True)
                if close < len(self._tokens) and len(arguments) > names.index(name):
                    return arguments[names.index(name)], here
        return None

    def text(self, part: tuple[int, int]) -> str:
        """Return the text of a range of tokens."""
        return text_of(self._tokens[slice(*part)])

    def value(self, part: tuple[int, int], at: int, overrides: Overrides | None = None) -> Value:
        """Return the value of an expression; None if the text does not say.

        Args:
            part: Range of its tokens.
            at: Index of a token of the function that contains it: assignments before this token count.
            overrides: Values that replace those of the text.
        """
        return self._value(part, at, overrides or {}, 0)

    def roots(self, part: tuple[int, int], at: int) -> list[tuple[int, str]]:
        """Return the keys of ``Overrides`` for the variable that an expression is, and for those it was copied from.

        Empty if the expression is no variable.
        """
        found: list[tuple[int, str]] = []
        for _ in range(_DEEPEST):
            part = self._without_cast(part)
            words = self._tokens[slice(*part)]
            name = text_of(words)
            if not words or words[0].kind != NAME or set(name) & set("()+-*/[]&<"):
                break
            function = self.definitions.function_at(at)
            found.append((function.begin if function else -1, name))
            definition = next(self.definitions.of(name, at), None) if "." not in name else None
            if definition is None or definition.constructed:
                break
            part, at = definition.part, definition.at
        return found

    def bytes_of(self, part: tuple[int, int], at: int, overrides: Overrides | None = None) -> int | None:
        """Return the size in bytes of the memory that an argument points to, by its ``cudaMalloc``; None if unknown."""
        for _ in range(_DEEPEST):
            part = self._without_cast(part)
            name = self.text(part)
            function = self.definitions.function_at(at)
            begin, end = (function.body or (0, 0)) if function else (0, len(self._tokens))
            for here in range(end - 1, begin, -1):
                if self._tokens[here].text not in _ALLOCATIONS or self._tokens[here + 1].text not in ("(", "<"):
                    continue
                opening = here + 1
                while self._tokens[opening].text != "(":
                    opening += 1
                parts = split(self._tokens, opening + 1, closing(self._tokens, opening), angles=True)
                if len(parts) > 1 and self._pointee(parts[0]) == name:
                    size = self._value(parts[1], here, overrides or {}, 0)
                    return int(size) if isinstance(size, (int, float)) else None
            binding = self.definitions.binding(name, function) if function else None
            if binding is None:
                return None
            part, at = binding
        return None

    def _value(self, part: tuple[int, int], at: int, overrides: Overrides, depth: int) -> Value:
        if depth > _DEEPEST * 4:
            return None
        return Expression(
            self._tokens, *part,
            lambda name: self._lookup(name, at, overrides, depth + 1),
            lambda name, values: self._call(name, values, depth + 1),
        ).value()  # fmt: skip

    def _lookup(self, name: str, at: int, overrides: Overrides, depth: int) -> Value:
        function = self.definitions.function_at(at)
        for key in ((function.begin if function else -1, name), (-1, name)):
            if key in overrides:
                return overrides[key]
        if name.startswith("sizeof "):
            size = self._size_of_array(name[7:], at, overrides, depth)
            return self.unknown(name) if size is None else size
        if name.endswith("]"):
            array, _, index = name[:-1].partition("[")
            parts = self.definitions.elements(array, at)
            return self._value(parts[int(index)], at, overrides, depth) if int(index) < len(parts) else None
        value, since = None, function.body[0] if function and function.body else 0
        for definition in self.definitions.of(name, at):  # where the last is not known, the one before it
            value = self._defined(definition, overrides, depth)
            if value is not None:
                since = max(since, definition.at) if definition.at < at else since
                break
        if function and "." not in name:
            value = self._with_members(name, value, since, at, overrides, depth)
        base, _, member = name.rpartition(".")
        if value is None and base and member in ("x", "y", "z"):
            whole = self._lookup(base, at, overrides, depth + 1)
            if isinstance(whole, (int, float)):
                whole = int(whole), 1, 1
            return whole["xyz".index(member)] if isinstance(whole, tuple) else None
        if value is None and (argument := self._instantiated(name, at)):
            value = self._value(*argument, overrides, depth + 1)
        if value is None:
            return 1 if name == "argc" else self.unknown(name)
        return value

    def _with_members(self, name: str, value: Value, since: int, at: int, overrides: Overrides, depth: int) -> Value:
        """Return the value of a ``dim3`` with those of its members that get one between two tokens: ``grid.x = 4``."""
        whole = list(value) if isinstance(value, tuple) else [1, 1, 1]
        changed = False
        for place, member in enumerate("xyz"):
            for definition in self.definitions.between(f"{name}.{member}", since, at):
                part = self._defined(definition, overrides, depth)
                if isinstance(part, (int, float)):
                    whole[place], changed = int(part), True
                    break
                if value is None:
                    return None
        x, y, z = whole
        return (x, y, z) if changed else value

    def _defined(self, definition: Definition, overrides: Overrides, depth: int) -> Value:
        """Return the value of a definition."""
        if not definition.constructed:
            return self._value(definition.part, definition.at, overrides, depth)
        parts = split(self._tokens, *definition.part)
        values = [self._value(each, definition.at, overrides, depth) for each in parts]
        if len(values) == 1:
            return values[0]
        numbers = [int(each) for each in values if isinstance(each, (int, float))]
        x, y, z = [*numbers, 1, 1, 1][:3]
        return (x, y, z) if 0 < len(numbers) == len(values) <= 3 else None

    def _call(self, name: str, values: list[Value], depth: int) -> Value:
        """Return the value of a call of a function whose body is one ``return``; None for others."""
        for function in self.definitions.functions:
            if function.name == name and function.body and self._tokens[function.body[0]].text == "return":
                begin, end = function.body
                names = [self.definitions.name_of_parameter(each) for each in split(self._tokens, *function.parameters)]
                bound = {(function.begin, each): value for each, value in zip(names, values, strict=False)}
                return self._value((begin + 1, end - 1), begin, bound, depth)
        return None

    def _size_of_array(self, name: str, at: int, overrides: Overrides, depth: int) -> Value:
        """Return the bytes of an array that the function declares: ``float h[ROWS][COLUMNS]``."""
        for here in range(at - 1, 0, -1):
            tokens = self._tokens
            if tokens[here].text == name and tokens[here + 1].text == "[" and tokens[here - 1].text in SIZES:
                size: Value = SIZES[tokens[here - 1].text]
                opening = here + 1
                while tokens[opening].text == "[" and isinstance(size, (int, float)):
                    close = closing(tokens, opening)
                    extent = self._value((opening + 1, close), here, overrides, depth)
                    size = size * extent if isinstance(extent, (int, float)) else None
                    opening = close + 1
                return size
        return None

    def _without_cast(self, part: tuple[int, int]) -> tuple[int, int]:
        """Return the range of an expression without casts around it: ``(float*)d_a``."""
        begin, end = part
        while begin < end and self._tokens[begin].text == "(":
            close = closing(self._tokens, begin, end)
            begin, end = (begin + 1, end - 1) if close == end - 1 else (close + 1, end)
        return begin, end

    def _pointee(self, part: tuple[int, int]) -> str:
        """Return the pointer whose address is passed: ``d_a`` of ``(void**)&d_a``."""
        begin, end = self._without_cast(part)
        tokens = self._tokens
        if tokens[begin].text in ("reinterpret_cast", "static_cast"):
            begin = closing_angle(tokens, begin + 1, end) + 2
            end -= 1
        begin, end = self._without_cast((begin, end))
        if tokens[begin].text == "&":
            begin += 1
        begin, end = self._without_cast((begin, end))
        return self.text((begin, end))
