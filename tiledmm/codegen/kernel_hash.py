"""Hashes of kernels, which tell whether a measurement was made with the kernels' present code."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable

from tiledmm.kernels.spec import KernelSpec

# Hexadecimal digits of a hash.
_DIGITS = 12

# A comment, or a string, in which "//" does not begin a comment.
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)


def kernel_hash(kernels: Iterable[KernelSpec]) -> str:
    """Return one hash of the CUDA C of all given kernels, without comments and blank lines.

    A change of a comment, of a docstring, of the version or of another kernel does not change the hash. Measurements
    store it, so that they become outdated only if the code that they measured changes.
    """
    found = hashlib.sha256()
    for kernel in kernels:
        found.update(_code(kernel).encode())
    return found.hexdigest()[:_DIGITS]


def without_comments(text: str) -> str:
    """Return CUDA C code without comments, blank lines, and blanks at the ends of lines."""
    code = _COMMENT.sub(lambda found: found[1] or " ", text)
    return "".join(f"{line}\n" for line in map(str.rstrip, code.splitlines()) if line)


@functools.lru_cache(maxsize=4096)
def _code(kernel: KernelSpec) -> str:
    from tiledmm.codegen.rendering import render  # also imports Jinja, which only comparisons need

    return without_comments(render(kernel))
