"""Parsing of a user's options for a kernel: ``--args``, ``--grid``, ``--block``, ``--size``, a comment in the file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tiledmm.errors import ConfigError
from tiledmm.kernels.plain import SIZES
from tiledmm.simulator.build.program.expressions import Expression, Value
from tiledmm.simulator.build.program.tokens import closing, split, tokens_of

#: Names of element types, and their NumPy types.
TYPES = {
    "f16": "float16", "half": "float16", "f32": "float32", "float": "float32", "f64": "float64", "double": "float64",
    "bf16": "uint16", "i8": "int8", "char": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32",
    "int": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64", "c64": "complex64", "c128": "complex128",
    "bool": "bool",
}  # fmt: skip

_ARRAY = re.compile(r"(?P<name>\w+)\s*:\s*(?P<type>\w+)\s*\[(?P<shape>[^\]]*)\]\Z")
_SCALAR = re.compile(r"(?:(?P<name>\w+)\s*(?::\s*\w+\s*)?=\s*)?(?P<value>.+)\Z", re.DOTALL)
_COMMENT = re.compile(r"(?://|/?\*)[ \t]*tiledmm:[ \t]*(?P<said>[^\n]*?)[ \t]*(?:\*/)?[ \t]*$", re.MULTILINE)
_KEYS = ("kernel", "grid", "block", "shared", "args", "size", "expect", "multiple_of")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, as a user writes it: ``A:f32[M,K]``, ``M`` or ``alpha=1.5``.

    Attributes:
        name: Name of an array, or of a number that has a name; else empty.
        dtype: Type of an array's elements; None for a number.
        value: Extents of an array, separated by commas, or the number: expressions of sizes.
    """

    name: str
    dtype: np.dtype[np.generic] | None
    value: str

    @classmethod
    def of(cls, text: str) -> Argument:
        """Parse one argument.

        Raises:
            ConfigError: If it is malformed, or its type is unknown.
        """
        if found := _ARRAY.match(text.strip()):
            if found["type"] not in TYPES and not _is_dtype(found["type"]):
                raise ConfigError(f"unknown element type {found['type']!r} in --args; types are {', '.join(TYPES)}")
            return cls(found["name"], np.dtype(TYPES.get(found["type"], found["type"])), found["shape"])
        found = _SCALAR.match(text.strip())
        if not found or ":" in found["value"]:
            raise ConfigError(
                f"an argument must be an array A:f32[M,K], or a number such as M or alpha=1.5; got {text!r}"
            )
        return cls(found["name"] or "", None, found["value"])


def arguments_of(text: str) -> tuple[Argument, ...]:
    """Parse the arguments of a kernel: ``"A:f32[M,K], B:f32[K,N], C:f32[M,N], M, N, K"``."""
    tokens = tokens_of(text)
    ends = [(tokens[a].begin, tokens[b - 1].end) for a, b in split(tokens, 0, len(tokens)) if a < b]
    return tuple(Argument.of(text[begin:end]) for begin, end in ends)


def number(text: str, sizes: Mapping[str, int | float]) -> int | float:
    """Return the value of an expression of sizes, as in C: ``(N + 15) / 16``.

    Raises:
        ConfigError: If it is not a number, or names an unknown size.
    """
    found = value(text, sizes)
    if not isinstance(found, (int, float)):
        known = ", ".join(dict.fromkeys(sizes))
        raise ConfigError(
            f"cannot evaluate {text!r}: an expression may contain {known}, numbers, + - * / and parentheses"
        )
    return found


def value(text: str, sizes: Mapping[str, int | float]) -> Value:
    """Return the value of an expression of sizes; None if it has no value."""
    tokens = tokens_of(text)
    return Expression(tokens, 0, len(tokens), sizes.get, lambda _name, _values: None).value()


def three(text: str, sizes: Mapping[str, int | float]) -> tuple[int, int, int]:
    """Return a grid or a block: up to three expressions with commas, perhaps in parentheses or ``dim3(...)``."""
    tokens = tokens_of(text)
    begin, end = int(bool(tokens) and tokens[0].text == "dim3"), len(tokens)
    if begin < end and tokens[begin].text in ("(", "{") and closing(tokens, begin) == end - 1:
        begin, end = begin + 1, end - 1
    parts = [text[tokens[a].begin : tokens[b - 1].end] for a, b in split(tokens, begin, end) if a < b]
    if not 1 <= len(parts) <= 3:
        raise ConfigError(f"a grid or a block must have one to three numbers, separated by commas; got {text!r}")
    x, y, z = [*(int(number(part, sizes)) for part in parts), 1, 1][:3]
    return x, y, z


def joined(value: str | int | Sequence[int]) -> str:
    """Return a number, or several numbers separated by commas, as text. A text is returned unchanged."""
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ",".join(map(str, value))


def comment_of(text: str, kernel: str = "") -> dict[str, str]:
    """Return the options in a comment of the file: ``// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16 args=...``.

    A comment that names another kernel (``kernel=...``) is ignored.

    Raises:
        ConfigError: If it has an unknown key.
    """
    found: dict[str, str] = {}
    for comment in _COMMENT.finditer(text):
        parts = re.split(r"(?:^|\s)(\w+)=(?=\S)", comment["said"])
        said = dict(zip(parts[1::2], (part.strip().strip('"') for part in parts[2::2]), strict=True))
        # args= may hold "alpha=1.5", so a word that is not a key belongs to the value before it.
        merged: dict[str, str] = {}
        for key, each in said.items():
            if key in _KEYS:
                merged[key] = each
            elif merged:
                last = next(reversed(merged))
                merged[last] += f" {key}={each}"
            else:
                raise ConfigError(
                    f"unknown key {key}= in the comment 'tiledmm:'; the keys are {', '.join(f'{k}=' for k in _KEYS)}"
                )
        if not kernel or merged.get("kernel", kernel) == kernel:
            found |= merged
    return found


@dataclass(frozen=True, slots=True)
class Said:
    """Options that the user states for a kernel, on the command line or in a comment of the file; empty by default."""

    grid: str = ""
    block: str = ""
    shared: str = ""
    args: str = ""
    size: str = ""
    expect: str = ""
    multiple_of: str = ""

    @property
    def steps(self) -> tuple[int, int, int]:
        """Numbers that M, N and K must be multiples of; 1 by default.

        Raises:
            ConfigError: If ``multiple_of`` is malformed.
        """
        parts = [part.strip() for part in (self.multiple_of or "1").split(",")]
        if len(parts) not in (1, 3) or not all(part.isdigit() and int(part) for part in parts):
            raise ConfigError(f"multiple_of must be one positive integer, or three for M,N,K; got {self.multiple_of!r}")
        m, n, k = (int(part) for part in (parts * 3)[:3])
        return m, n, k

    def with_comment(self, text: str, kernel: str) -> Said:
        """Return these options, completed by those in a comment of the file."""
        comment = comment_of(text, kernel)
        return Said(**{name: getattr(self, name) or comment.get(name, "") for name in self.__dataclass_fields__})

    @property
    def sizes(self) -> dict[str, int] | None:
        """M, N and K of ``size``; None if it is empty.

        Raises:
            ConfigError: If it is malformed.
        """
        if not self.size:
            return None
        parts = re.split(r"[x,]", self.size)
        if len(parts) not in (1, 3) or not all(part.strip().isdigit() and int(part) for part in parts):
            raise ConfigError(f"--size must be M,N,K, or one positive integer for all three; got {self.size!r}")
        return dict(zip(SIZES, (int(part) for part in (parts * 3)[:3]), strict=True))

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Types, shapes and values of the arguments, parsed from ``args``."""
        return arguments_of(self.args)


def _is_dtype(name: str) -> bool:
    try:
        np.dtype(name)
    except TypeError:
        return False
    return True
