"""Values of C++ expressions in host code: sizes, grids and blocks, as far as they follow from the text."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tiledmm.simulator.build.program.tokens import NAME, NUMBER, Token, closing, closing_angle, split

#: A number, the three numbers of a ``dim3``, or None if the text does not say.
Value: TypeAlias = "int | float | tuple[int, int, int] | None"

#: Sizes of types in bytes.
SIZES = {
    "char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "short": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2,
    "nv_bfloat16": 2, "int16_t": 2, "uint16_t": 2, "int": 4, "unsigned": 4, "float": 4, "uint": 4, "int32_t": 4,
    "uint32_t": 4, "half2": 4, "double": 8, "size_t": 8, "int64_t": 8, "uint64_t": 8, "float2": 8, "cuComplex": 8,
    "float4": 16, "cuDoubleComplex": 16, "double2": 16, "long": 8, "clock_t": 8,
    "uchar4": 4, "char4": 4, "int2": 8, "int4": 16,
}  # fmt: skip
_INTEGERS = frozenset(SIZES) - {"half", "__half", "float", "double", "bool"} | {"signed"}
_TYPES = _INTEGERS | {"float", "double", "bool"}

_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "ceil": lambda x: float(math.ceil(x)), "ceilf": lambda x: float(math.ceil(x)),
    "floor": lambda x: float(math.floor(x)), "floorf": lambda x: float(math.floor(x)),
    "sqrt": math.sqrt, "sqrtf": math.sqrt, "pow": pow, "log2": math.log2, "abs": abs,
    "min": min, "max": max,
}  # fmt: skip

# Operators of two operands, by how strongly they bind.
_BINDING = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip


class Expression:
    """The value of one C++ expression.

    Args:
        tokens: All tokens of the program.
        begin, end: Indices of the expression's first token, and after its last one.
        lookup: Function that returns the value of a name, with the members after it: ``"n"``, ``"dims.x"``; and of an
            element of an array, ``"sizes[2]"``, whose number is 0 if it is not known.
        call: Function that returns the value of a call of one of the program's functions; None if it is none.
    """

    def __init__(
        self,
        tokens: Sequence[Token],
        begin: int,
        end: int,
        lookup: Callable[[str], Value],
        call: Callable[[str, list[Value]], Value],
    ) -> None:
        self._tokens, self._at, self._end = tokens, begin, end
        self._lookup, self._call = lookup, call

    def value(self) -> Value:
        """Return the value; None if the text does not say what it is."""
        try:
            found = self._ternary()
        except (ArithmeticError, ValueError, TypeError, IndexError):
            return None
        return found if self._at >= self._end else None

    def _peek(self) -> str:
        return self._tokens[self._at].text if self._at < self._end else ""

    def _ternary(self) -> Value:
        condition = self._binary(1)
        if self._peek() != "?":
            return condition
        self._at += 1
        first = self._ternary()
        if self._peek() == ":":
            self._at += 1
        second = self._ternary()
        return first if condition else second  # unknown conditions are those of arguments that nobody gave

    def _operator(self) -> str:
        text = self._peek()
        after = self._tokens[self._at + 1] if self._at + 1 < self._end else None
        adjacent = after is not None and after.begin == self._tokens[self._at].end
        if text in ("<", ">") and adjacent and after is not None and after.text == text:
            return text * 2
        return text

    def _binary(self, least: int) -> Value:
        left = self._unary()
        while (sign := self._operator()) in _BINDING and _BINDING[sign] >= least:
            self._at += 2 if sign in ("<<", ">>") else 1
            left = _apply(sign, left, self._binary(_BINDING[sign] + 1))
        return left

    def _unary(self) -> Value:
        text = self._peek()
        if text in ("-", "+", "!", "&", "*", "~"):
            self._at += 1
            inner = self._unary()
            if text == "+" or not isinstance(inner, (int, float)):
                return inner if text == "+" else None
            return {"-": -inner, "!": int(not inner)}.get(text)
        if text == "(" and (kind := self._cast()):
            return _converted(kind, self._unary())
        return self._postfix()

    def _cast(self) -> str:
        """Return the type of a cast at this place, and pass over it; an empty string if there is none."""
        close = closing(self._tokens, self._at, self._end)
        words = [token.text for token in self._tokens[self._at + 1 : close]]
        if not words or not set(words) <= _TYPES | {"const", "std", "::"}:
            return ""
        self._at = close + 1
        return words[-1]

    def _postfix(self) -> Value:
        if self._at >= self._end:
            return None
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == NUMBER:
            return _number(token.text)
        if token.text == "(":
            close = closing(self._tokens, self._at - 1, self._end)
            inner = self._part(self._at, close)
            self._at = close + 1
            return self._members(inner)
        if token.text == "{":
            close = closing(self._tokens, self._at - 1, self._end)
            values = [self._part(*part) for part in split(self._tokens, self._at, close)]
            self._at = close + 1
            return values[0] if len(values) == 1 else _dim3(values)
        if token.kind != NAME:
            return None
        return self._named(token.text)

    def _named(self, name: str) -> Value:
        while self._peek() == "::" and self._at + 1 < self._end:
            name = self._tokens[self._at + 1].text
            self._at += 2
        if name == "sizeof":
            return self._sizeof()
        kind = ""
        if self._peek() == "<" and (close := closing_angle(self._tokens, self._at, self._end)) < self._end:
            after = self._tokens[close + 1].text if close + 1 < self._end else ""
            if after == "(":
                kind = self._tokens[close - 1].text
                self._at = close + 1
        if self._peek() in ("(", "{"):
            close = closing(self._tokens, self._at, self._end)
            values = [self._part(*part) for part in split(self._tokens, self._at + 1, close, angles=True)]
            self._at = close + 1
            return self._members(self._called(name, kind, values))
        while self._peek() in (".", "->") and self._at + 1 < self._end:
            name = f"{name}.{self._tokens[self._at + 1].text}"
            self._at += 2
            if self._peek() == "(":  # a.size(0)
                close = closing(self._tokens, self._at, self._end)
                name += "(" + "".join(token.text for token in self._tokens[self._at + 1 : close]) + ")"
                self._at = close + 1
        if self._peek() == "[":
            close = closing(self._tokens, self._at, self._end)
            index = self._part(self._at + 1, close)
            self._at = close + 1
            name = f"{name}[{int(index) if isinstance(index, (int, float)) else 0}]"
        if name in ("true", "false", "nullptr", "NULL"):
            return int(name == "true")
        return self._lookup(name)

    def _called(self, name: str, kind: str, values: list[Value]) -> Value:
        if name == "dim3":
            return _dim3(values)
        if name == "static_cast":
            return _converted(kind, values[0])
        if name in _TYPES and len(values) == 1:
            return _converted(name, values[0])
        known = self._call(name, values)
        if known is None and name in _FUNCTIONS and all(isinstance(each, (int, float)) for each in values):
            return _FUNCTIONS[name](*values)
        return known

    def _sizeof(self) -> Value:
        if self._peek() != "(":
            return None
        close = closing(self._tokens, self._at, self._end)
        words = [token.text for token in self._tokens[self._at + 1 : close] if token.kind == NAME]
        pointer = self._tokens[close - 1].text == "*"
        self._at = close + 1
        if pointer:
            return 8
        known = [SIZES[word] for word in words if word in SIZES]
        return known[-1] if known else self._lookup(f"sizeof {words[-1]}") if words else None

    def _members(self, value: Value) -> Value:
        while self._peek() == "." and isinstance(value, tuple):
            value = value["xyz".index(self._tokens[self._at + 1].text)]
            self._at += 2
        return value

    def _part(self, begin: int, end: int) -> Value:
        return Expression(self._tokens, begin, end, self._lookup, self._call).value()


def _apply(sign: str, left: Value, right: Value) -> Value:
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return None
    if sign in _OF_NUMBERS:
        found = _OF_NUMBERS[sign](left, right)
        return int(found) if isinstance(found, bool) else found
    if isinstance(left, int) and isinstance(right, int):
        return _OF_INTEGERS[sign](left, right)
    return left / right if sign == "/" else None


def _quotient(left: int, right: int) -> int:
    """Return the quotient of C, rounded towards zero."""
    return left // right if left * right >= 0 else -(-left // right)


_OF_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
    "&&": lambda left, right: bool(left and right), "||": lambda left, right: bool(left or right),
    "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip
_OF_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "/": _quotient, "%": lambda left, right: left - right * _quotient(left, right), "<<": operator.lshift,
    ">>": operator.rshift, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip


def _converted(kind: str, value: Value) -> Value:
    if not isinstance(value, (int, float)):
        return value
    return int(value) if kind in _INTEGERS else float(value) if kind in ("float", "double") else value


def _dim3(values: Sequence[Value]) -> Value:
    if len(values) == 1 and isinstance(values[0], tuple):
        return values[0]
    numbers = [int(each) for each in values if isinstance(each, (int, float))]
    if len(numbers) != len(values) or len(numbers) > 3:
        return None
    x, y, z = [*numbers, 1, 1, 1][:3]
    return x, y, z


def _number(text: str) -> int | float:
    plain = text.replace("'", "").rstrip("uUlLzZ")
    if plain.lower().startswith(("0x", "0b")):
        return int(plain, 0)
    if any(each in plain for each in ".eE") or plain.endswith(("f", "F")):
        return float(plain.rstrip("fF"))
    return int(plain, 8) if len(plain) > 1 and plain[0] == "0" else int(plain)
