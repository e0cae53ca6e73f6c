"""Variables that may not be set, given a value in a kernel's text: a result that then changes depends on them.

Compilers fill unset variables with a pattern of their choice: GCC's is an ordinary number for floats, of which
``sum * 0`` leaves nothing, and a negative one, which ``fmaxf(most, x)`` does not keep. A text is edited only where the
compiler says which variable may be read before it is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: What is given (``native/cuda.h``): all bits set, which is NaN, and -1 in integers; a great number.
VALUES = ("Ones", "Great")


def filled(source: str, variables: Iterable[tuple[str, int]], value: str) -> str:
    """A kernel's text in which variables that are declared without a value have one. Lines stay where they are.

    Args:
        source: CUDA C.
        variables: Names and the lines, from 1, of their declarations.
        value: One of ``VALUES``.
    """
    lines = source.split("\n")
    for name, number in dict.fromkeys(variables):
        if not name.isidentifier() or not 0 < number <= len(lines):
            continue
        declarator = re.compile(rf"(?<=[\w&*\s,])(?<![.>:])\b{name}\b(?=\s*[,;])")
        found = list(declarator.finditer(lines[number - 1]))
        if len(found) == 1:
            at = found[0].end()
            lines[number - 1] = f"{lines[number - 1][:at]} = tiledmm_detail::{value}(){lines[number - 1][at:]}"
    return "\n".join(lines)
