"""Hashes of kernels, which tell whether a measurement is one of the kernels as they are today."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable

from tiledmm.kernels.spec import KernelSpec

# Hexadecimal digits of a hash.
_DIGITS = 12

# A comment; or a string, in which "//" begins none.
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)


def kernel_hash(kernels: Iterable[KernelSpec]) -> str:
    """Return one hash of all given kernels' CUDA C without comments and blank lines.

    A comment, a docstring, a release or a change of another kernel leaves it as it is: measurements store it, so that
    only a change of what runs makes them older.
    """
    found = hashlib.sha256()
    for kernel in kernels:
        found.update(_code(kernel).encode())
    return found.hexdigest()[:_DIGITS]


def without_comments(text: str) -> str:
    """Return CUDA C without its comments, blank lines, and blanks at the ends of lines."""
    code = _COMMENT.sub(lambda found: found[1] or " ", text)
    return "".join(f"{line}\n" for line in map(str.rstrip, code.splitlines()) if line)


@functools.lru_cache(maxsize=4096)
def _code(kernel: KernelSpec) -> str:
    from tiledmm.codegen.rendering import render  # and Jinja: only where there is something to compare

    return without_comments(render(kernel))
