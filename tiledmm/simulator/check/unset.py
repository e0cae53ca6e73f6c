"""Variables that are declared without a value, which get one in a kernel's text: what then changes depends on them.

Compilers fill unset variables with a pattern of their choice: GCC's is an ordinary number for floats, of which
``sum * 0`` leaves nothing, and a negative one, which ``fmaxf(most, x)`` does not keep. And they take 3 for the value of
``int a; if (c) a = 3;``, whatever they filled it with, as compilers for GPUs do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tiledmm.simulator.build.debug.variables import LocalVariable
from tiledmm.simulator.build.native_kernel import NativeKernel

#: The values (``build/native/cuda.h``), and what each of their bytes is: zeros; all bits set, which is NaN, and -1 in
#: integers; a great number.
VALUES = {"Zeros": 0, "Ones": 0xFF, "Great": 0x7B}


def unset_variables(kernel: NativeKernel) -> list[LocalVariable]:
    """Return the variables that are local to a thread and declared without a value, and that can be given one.

    Args:
        kernel: The kernel.
    """
    return [each for each in kernel.local_variables if filled(kernel.text, [each], "Ones") != kernel.text]


def filled_kernel(kernel: NativeKernel, variables: Sequence[LocalVariable], value: str) -> NativeKernel | None:
    """Compile a kernel in which variables are given a value where they are declared.

    Args:
        kernel: The kernel.
        variables: The variables.
        value: One of ``VALUES``.

    Returns:
        The edited kernel; None if the edited text does not compile.
    """
    return kernel.edited(filled(kernel.text, variables, value))


def filled(source: str, variables: Iterable[LocalVariable], value: str) -> str:
    """Return CUDA C in which each variable is filled by a statement after its declaration. No line moves.

    A variable whose declaration is not recognized, or that has a value already, stays as it is.

    Args:
        source: CUDA C.
        variables: The variables.
        value: One of ``VALUES``.
    """
    begins = [0, *(found.end() for found in re.finditer("\n", source))]
    statements: dict[int, list[str]] = {}
    for name, line in dict.fromkeys((each.name, each.declared) for each in variables):
        if 0 < line <= len(begins) and (end := _end_of_declaration(source, name, begins[line - 1])):
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
    if before.rstrip()[-1:] in tuple("=+-/%<>?:!|^~"):  # another variable of this name, in an expression
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
