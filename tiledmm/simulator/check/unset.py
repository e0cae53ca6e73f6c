"""Possibly unset variables, which get a value in a kernel's text: a result that then changes depends on them.

Compilers fill unset variables with a pattern of their choice: GCC's is an ordinary number for floats, of which
``sum * 0`` leaves nothing, and a negative one, which ``fmaxf(most, x)`` does not keep. A text is edited only where the
compiler warns that a variable may be read before it is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tiledmm.simulator.build.native_kernel import NativeKernel

#: The values (``build/native/cuda.h``): all bits set, which is NaN, and -1 in integers; a great number.
VALUES = ("Ones", "Great")


def filled_kernel(kernel: NativeKernel, value: str) -> NativeKernel | None:
    """Compile a kernel in which variables that may be read before they are set are given a value.

    Args:
        kernel: The kernel.
        value: One of ``VALUES``.

    Returns:
        The edited kernel; None if no variable may be read before it is set, or if the edited text does not compile.
    """
    text = filled(kernel.text, [(each.name, each.declared) for each in kernel.may_be_unset], value)
    return kernel.edited(filled_aggregates(text, fillable_aggregates(kernel), value)) or kernel.edited(text)


def fillable_aggregates(kernel: NativeKernel) -> list[tuple[str, int]]:
    """Return the structures and arrays of a kernel that are local to a thread and declared without a value.

    Returns:
        For each, its name and the line of its declaration.
    """
    text = kernel.text
    return [each for each in kernel.aggregates if filled_aggregates(text, [each], VALUES[0]) != text]


def filled(source: str, variables: Iterable[tuple[str, int]], value: str) -> str:
    """Return CUDA C in which some variables are initialized where they are declared. No line moves.

    A variable whose declaration is not recognized, or that has a value already, stays as it is.

    Args:
        source: CUDA C.
        variables: Name of each variable, and the line, from 1, of its declaration.
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
    """Return CUDA C in which each structure or array is filled by a statement after its declaration. No line moves.

    A structure or array whose declaration is not recognized, or that has a value already, stays as it is.

    Args:
        source: CUDA C.
        aggregates: Name of each structure or array, and the line, from 1, of its declaration.
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
    """Return the offset after the declaration of a variable that gets no value there.

    Args:
        source: CUDA C.
        name: Name of the variable.
        begin: Offset of the line that declares it.

    Returns:
        The offset; 0 if the line has no such declaration of a thread's local variable.
    """
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
