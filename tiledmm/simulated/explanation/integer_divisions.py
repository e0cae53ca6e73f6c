"""Integer divisions by variables in a kernel's inner loop, found in its text: machine code has no line for each."""

from __future__ import annotations

import re

from tiledmm.simulator.build.translation.blocks import loop_around
from tiledmm.simulator.build.translation.syntax import without_comments
from tiledmm.simulator.report.report import Report

# Only integers have remainders, and only they are subscripts.
_DIVISION = re.compile(r"\[[^\[\]]*[%/]\s*(?P<by>[A-Za-z_][\w.]*)[^\[\]]*\]|%\s*\(?\s*(?P<remainder>[A-Za-z_][\w.]*)")


def division_in_inner_loop(report: Report) -> tuple[int, str] | None:
    """Return the line of an integer division in the innermost loop that multiplies, and its divisor; None without one.

    Args:
        report: The simulator's report of a launch.
    """
    busiest = max(report.lines, key=lambda line: (line.flops, line.source.global_load.requests), default=None)
    loop = loop_around(report.text, busiest.line) if busiest and busiest.line else 0
    if not busiest or not loop:
        return None
    lines = without_comments(report.text).split("\n")
    for at in range(loop, min(busiest.line, len(lines)) + 1):
        for found in _DIVISION.finditer(lines[at - 1]):
            divisor = found["by"] or found["remainder"]
            if not _is_constant(divisor, report.text):
                return at, divisor
    return None


def _is_constant(name: str, text: str) -> bool:
    """Return whether a name is a macro, a constant or a template parameter, by which a compiler divides fast."""
    macro = rf"#\s*define\s+{name}\b"
    constant = rf"\b(?:constexpr|const|enum)\b[^;=()]*\b{name}\b\s*=\s*[\w\s*+/()<-]*;"
    parameter = rf"\btemplate\s*<[^>]*\b{name}\b"
    return name == "warpSize" or bool(re.search(f"{macro}|{constant}|{parameter}", text))
