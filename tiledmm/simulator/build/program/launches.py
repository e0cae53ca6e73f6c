"""The launches in a program's host code: their kernel, grid, block and arguments, with the values that these have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tiledmm.simulator.build.program.expressions import SIZES, Expression, Value
from tiledmm.simulator.build.program.items import FUNCTION, Item, members_of
from tiledmm.simulator.build.program.launch_site import LaunchSite, launch_at
from tiledmm.simulator.build.program.tokens import (
    NAME,
    Token,
    closing,
    closing_angle,
    find,
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
        everything = [*items, *(member for item in items for member in members_of(tokens, item))]
        self._functions = [item for item in everything if item.kind == FUNCTION and item.body]
        self._variables = [item for item in items if item.kind != FUNCTION]

    @functools.cached_property
    def launches(self) -> tuple[LaunchSite, ...]:
        """All launches, in order."""
        found = (launch_at(self._tokens, at) for at, token in enumerate(self._tokens) if token.text == "<<<")
        return tuple(each for each in found if each is not None)

    def is_skipped(self, site: LaunchSite) -> bool:
        """Return whether the conditions around a launch say that it does not run: ``if (block_size == 16)``."""
        function = self._function(site.at)
        for at in range(function.body[0], site.at) if function and function.body else ():
            if self._tokens[at].text != "if" or self._tokens[at + 1].text != "(":
                continue
            close = closing(self._tokens, at + 1)
            then = self._statement(close + 1)
            other = self._statement(then + 1) if self._tokens[then].text == "else" else then
            condition = self.value((at + 2, close), at)
            if condition is not None and at < site.at < other and bool(condition) != (site.at < then):
                return True
        return False

    def _statement(self, at: int) -> int:
        """Return the index after the statement at ``at``."""
        if self._tokens[at].text == "{":
            return closing(self._tokens, at) + 1
        if self._tokens[at].text == "if":
            end = self._statement(closing(self._tokens, at + 1) + 1)
            return self._statement(end + 1) if self._tokens[end].text == "else" else end
        return find(self._tokens, at, len(self._tokens), lambda token: token.text == ";") + 1

    def template_argument(self, name: str, at: int) -> str:
        """Return the type that a template parameter of the function around a token has where it is instantiated.

        Empty if the text instantiates it nowhere: neither ``template void run<float>(...)`` nor ``run<float>(...)``.
        """
        function = self._function(at)
        if function is None or function.template is None:
            return ""
        names = [self._name_of_parameter(part) for part in split(self._tokens, *function.template, angles=True)]
        for here, token in enumerate(self._tokens[:-1] if name in names else ()):
            if token.text == function.name and self._tokens[here + 1].text == "<":
                close = closing_angle(self._tokens, here + 1, len(self._tokens))
                arguments = split(self._tokens, here + 2, close, angles=True)
                if close < len(self._tokens) and len(arguments) > names.index(name):
                    return self.text(arguments[names.index(name)])
        return ""

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
            function = self._function(at)
            found.append((function.begin if function else -1, name))
            definition = self._definition(name, at) if "." not in name else None
            if definition is None or definition[2]:
                break
            part, at = definition[0], definition[1]
        return found

    def bytes_of(self, part: tuple[int, int], at: int, overrides: Overrides | None = None) -> int | None:
        """Return the size in bytes of the memory that an argument points to, by its ``cudaMalloc``; None if unknown."""
        for _ in range(_DEEPEST):
            part = self._without_cast(part)
            name = self.text(part)
            function = self._function(at)
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
            binding = self._binding(name, function) if function else None
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
        function = self._function(at)
        for key in ((function.begin if function else -1, name), (-1, name)):
            if key in overrides:
                return overrides[key]
        if name.startswith("sizeof "):
            return self._size_of_array(name[7:], at, overrides, depth)
        definition = self._definition(name, at)
        if members := self._members(name, at, definition[1] if definition else 0):
            whole = self._defined(definition, overrides, depth) if definition else (1, 1, 1)
            whole = whole if isinstance(whole, tuple) else (1, 1, 1)
            parts = [self._lookup(f"{name}.{each}", at, overrides, depth) if each in members else old
                     for each, old in zip("xyz", whole, strict=True)]  # fmt: skip
            x, y, z = (int(each) if isinstance(each, (int, float)) else 0 for each in parts)
            return (x, y, z) if x and y and z else None
        if definition is not None:
            return self._defined(definition, overrides, depth)
        base, _, member = name.rpartition(".")
        if base and member in ("x", "y", "z"):
            whole = self._lookup(base, at, overrides, depth + 1)
            if isinstance(whole, (int, float)):
                whole = int(whole), 1, 1
            return whole["xyz".index(member)] if isinstance(whole, tuple) else None
        return 1 if name == "argc" else self.unknown(name)

    def _members(self, name: str, at: int, since: int) -> list[str]:
        """Return the members of a ``dim3`` that get a value of their own between two tokens: ``grid.x = 4``."""
        function = self._function(at)
        if "." in name or function is None or function.body is None:
            return []
        return [each for each in "xyz" if self._assigned(f"{name}.{each}", max(function.body[0], since), at)]

    def _defined(self, definition: tuple[tuple[int, int], int, bool], overrides: Overrides, depth: int) -> Value:
        """Return the value of a definition, as ``_definition`` returns it."""
        part, place, constructed = definition
        if constructed:
            values = [self._value(each, place, overrides, depth) for each in split(self._tokens, *part)]
            if len(values) != 1:
                numbers = [int(each) for each in values if isinstance(each, (int, float))]
                x, y, z = [*numbers, 1, 1, 1][:3]
                return (x, y, z) if 0 < len(numbers) == len(values) <= 3 else None
            return values[0]
        return self._value(part, place, overrides, depth)

    def _definition(self, name: str, at: int) -> tuple[tuple[int, int], int, bool] | None:
        """Return where a variable gets its value: the range of the expression, a token near it, whether in parentheses.

        None if the text does not say.
        """
        function = self._function(at)
        if function and function.body:
            found = self._assigned(name, function.body[0], at)
            if found:
                return found
            binding = self._binding(name, function)
            if binding:
                return (*binding, False)
        for item in self._variables:
            if name in item.declares and (found := self._assigned(name, item.begin, item.end)):
                return found
        return None

    def _assigned(self, name: str, begin: int, end: int) -> tuple[tuple[int, int], int, bool] | None:
        """Return the last value that a variable gets between two tokens."""
        words = name.split(".")
        length = 2 * len(words) - 1
        for at in range(end - length, begin - 1, -1):
            if self._tokens[at].text != words[0] or text_of(self._tokens[at : at + length]) != name:
                continue
            before = self._tokens[at - 1] if at > 0 else None
            after = self._tokens[at + length].text if at + length < len(self._tokens) else ""
            if before is not None and before.text in (".", "->", "::"):
                continue
            declared = before is not None and (before.kind == NAME or before.text in (">", ",", "&"))
            if after == "=":
                stop = at + length
                while stop < len(self._tokens) and self._tokens[stop].text not in (",", ";"):
                    opens = self._tokens[stop].text in ("(", "[", "{")
                    stop = closing(self._tokens, stop) + 1 if opens else stop + 1
                return (at + length + 1, stop), at, False
            if after in ("(", "{") and declared and before is not None and before.text not in ("return", "else"):
                close = closing(self._tokens, at + length)
                if self._tokens[min(close + 1, len(self._tokens) - 1)].text in (";", ","):
                    return (at + length + 1, close), at, True
        return None

    def _binding(self, name: str, function: Item) -> tuple[tuple[int, int], int] | None:
        """Return the argument that the first call of a function passes for its parameter, and a token of the caller."""
        parameters = split(self._tokens, *function.parameters, angles=True)
        names = [self._name_of_parameter(part) for part in parameters]
        if name not in names:
            return None
        for at, token in enumerate(self._tokens[:-1]):
            if token.text != function.name or self._tokens[at + 1].text != "(" or at + 2 == function.parameters[0]:
                continue
            caller = self._function(at)
            arguments = split(self._tokens, at + 2, closing(self._tokens, at + 1), angles=True)
            if caller and caller != function and len(arguments) > names.index(name):
                return arguments[names.index(name)], at
        return None

    def _name_of_parameter(self, part: tuple[int, int]) -> str:
        names = [token.text for token in self._tokens[slice(*part)] if token.kind == NAME]
        return names[-1] if names else ""

    def _call(self, name: str, values: list[Value], depth: int) -> Value:
        """Return the value of a call of a function whose body is one ``return``; None for others."""
        for function in self._functions:
            if function.name == name and function.body and self._tokens[function.body[0]].text == "return":
                begin, end = function.body
                names = [self._name_of_parameter(each) for each in split(self._tokens, *function.parameters)]
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

    def _function(self, at: int) -> Item | None:
        return next((each for each in self._functions if each.body and each.body[0] <= at <= each.body[1]), None)

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
