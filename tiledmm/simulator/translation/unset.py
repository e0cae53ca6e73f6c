"""Variables that may not be set, given a value of ones in a kernel's text: a result that then changes depends on them.

Compilers fill unset variables with a pattern of their choice: GCC's is an ordinary number for floats, of which
``sum * 0`` leaves nothing. All bits set is NaN, and -1 in integers. A text is edited only where the compiler says which
variable may be read before it is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_ONES = " = tiledmm_detail::Ones()"


def filled(source: str, variables: Iterable[tuple[str, int]]) -> str:
    """A kernel's text in which variables that are declared without a value have one. Lines stay where they are.

    Args:
        source: CUDA C.
        variables: Names and the lines, from 1, of their declarations.
    """
    lines = source.split("\n")
    for name, number in dict.fromkeys(variables):
        if not name.isidentifier() or not 0 < number <= len(lines):
            continue
        declarator = re.compile(rf"(?<=[\w&*\s,])(?<![.>:])\b{name}\b(?=\s*[,;])")
        found = list(declarator.finditer(lines[number - 1]))
        if len(found) == 1:
            at = found[0].end()
            lines[number - 1] = lines[number - 1][:at] + _ONES + lines[number - 1][at:]
    return "\n".join(lines)
