"""Variables that may not be set, given a value in a kernel's text: a result that then changes depends on them.

Compilers fill unset variables with a pattern of their choice: GCC's is an ordinary number for floats, of which
``sum * 0`` leaves nothing, and a negative one, which ``fmaxf(most, x)`` does not keep. A text is edited only where the
compiler says which variable may be read before it is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tiledmm.simulator.build.native_kernel import NativeKernel

#: What is given (``build/native/cuda.h``): all bits set, which is NaN, and -1 in integers; a great number.
VALUES = ("Ones", "Great")


def filled_kernel(kernel: NativeKernel, value: str) -> NativeKernel | None:
    """Compile a kernel with a value in the variables that may be read before they are set; None if there are none.

    Args:
        kernel: The kernel.
        value: One of ``VALUES``.
    """
    text = filled(kernel.text, [(each.name, each.declared) for each in kernel.may_be_unset], value)
    return kernel.edited(filled_aggregates(text, fillable_aggregates(kernel), value)) or kernel.edited(text)


def fillable_aggregates(kernel: NativeKernel) -> list[tuple[str, int]]:
    """Return a thread's own structures and arrays that are declared without a value, with their lines."""
    text = kernel.text
    return [each for each in kernel.aggregates if filled_aggregates(text, [each], VALUES[0]) != text]


def filled(source: str, variables: Iterable[tuple[str, int]], value: str) -> str:
    """Give a value to variables that a kernel's text declares without one. Lines stay where they are.

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


def filled_aggregates(source: str, aggregates: Iterable[tuple[str, int]], value: str) -> str:
    """Give a value to structures and arrays, by a statement after their declaration. Lines stay where they are.

    Args:
        source: CUDA C.
        aggregates: Names and the lines, from 1, of their declarations.
        value: One of ``VALUES``.
    """
    begins = [0, *(found.end() for found in re.finditer("\n", source))]
    statements: dict[int, list[str]] = {}
    for name, number in aggregates:
        if 0 < number <= len(begins) and (end := _end_of_declaration(source, name, begins[number - 1])):
            statements.setdefault(end, []).append(f" tiledmm_detail::{value}::fill({name});")
    for end in sorted(statements, reverse=True):
        source = source[:end] + "".join(statements[end]) + source[end:]
    return source


_NOT_A_THREADS = re.compile(r"\b(__shared__|__constant__|static|extern|constexpr|thread_local)\b")


def _end_of_declaration(source: str, name: str, begin: int) -> int:
    """Return where a declaration without a value on the line at ``begin`` ends; 0 if there is none."""
    found = re.compile(rf"(?<![\w.>:])({re.escape(name)})(?!\w)").search(source, begin)
    if not found:
        return 0
    before = source[begin : found.start()]
    after = re.compile(r"(\s*\[[^\]\n]*\])*\s*[,;]").match(source, found.end())
    if "\n" in before or not after or before.count("(") != before.count(")"):
        return 0
    if _NOT_A_THREADS.search(re.split("[;{}]", before)[-1]):
        return 0
    depth = 0
    for at in range(found.end(), len(source)):
        depth += (source[at] in "([{") - (source[at] in ")]}")
        if depth < 0:
            return 0
        if not depth and source[at] == ";":
            return at + 1
    return 0
