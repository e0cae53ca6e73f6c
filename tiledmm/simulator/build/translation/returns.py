"""Functions that end without returning a value, which C++ leaves undefined: a statement there returns one.

C++ compilers take the end of such a function for a place that no thread reaches, and let it run into the code behind.
A GPU's compiler returns what a register holds.
"""

from __future__ import annotations

import re
from pathlib import Path

#: The flag by which compilers name such functions in errors.
NAMED = "-Werror=return-type"

_END = re.compile(r"\bkernel\.cu:(\d+):(\d+): (?:error|warning): .*\[-W[^\]]*return-type\]")
_STATEMENT = " return tiledmm_detail::NotReturned(); "
_TAB = 8


def complete(file: Path, output: str) -> bool:
    """Insert a statement at the end of each function that ends without returning a value.

    Args:
        file: The kernel's text, as the compiler reads it. No line moves.
        output: Output of the compiler.

    Returns:
        Whether there is such a function.
    """
    ends = {(int(line), int(column)) for line, column in _END.findall(output)}
    lines = file.read_text(encoding="utf-8").split("\n")
    for number, column in sorted(ends, reverse=True):
        line = lines[number - 1]
        at = _brace(line, column)
        if at >= 0:
            lines[number - 1] = line[:at] + _STATEMENT + line[at:]
    if ends:
        file.write_text("\n".join(lines), encoding="utf-8")
    return bool(ends)


def _brace(line: str, column: int) -> int:
    """Return the offset of the brace at a column, from 1, where a tab may count as up to eight; -1 for no brace."""
    shown = 0
    for at, character in enumerate(line):
        if character == "}" and column - 1 in (shown, at):
            return at
        shown += _TAB - shown % _TAB if character == "\t" else 1
    return line.rfind("}")
