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
from tiledmm.simulator.build.translation.syntax import closed, without_comments

#: The values (``build/native/cuda.h``), and what each of their bytes is: zeros; all bits set, which is NaN, and -1 in
#: integers; a great number.
VALUES = {"Zeros": 0, "Ones": 0xFF, "Great": 0x7B}


def unset_variables(kernel: NativeKernel) -> list[LocalVariable]:
    """Return the variables that are local to a thread and declared without a value, and that can be given one.

    Members of structures with a constructor are among them: it may leave some out.

    Args:
        kernel: The kernel.
    """
    found: list[LocalVariable] = [
        each for each in kernel.local_variables if filled(kernel.text, [each], "Ones") != kernel.text
    ]
    members = constructed_members(kernel.text)
    return [*found, *members] if filled_kernel(kernel, members, "Ones") else found


# A declaration of members without values, each of which is a number or a structure; the group has their names.
_MEMBERS = re.compile(
    r"(?:^|(?<=[;:]))\s*(?!(?:using|typedef|friend|static|const|constexpr|return)\b)"
    r"[\w:<>]+(?:\s+\w+)*?\s+(\w+(?:\s*,\s*\w+)*)\s*(?=;)"
)


class Member(LocalVariable):
    """A member of a structure, which has a value where no constructor gives it another."""

    __slots__ = ()


def constructed_members(text: str) -> list[Member]:
    """Return the members without a value of structures whose constructors have parameters.

    Structures of which there are variables outside of functions or in shared memory are left out: their members may
    have no values.

    Args:
        text: CUDA C.
    """
    plain = without_comments(text)
    found = []
    for head in re.finditer(r"\b(?:struct|class)\s+(\w+)\s*(?:final\s*)?(?::[^;{}()]*)?\{", plain):
        name, (begin, end) = head[1], closed(plain, head.end())
        body, inner = "", plain[begin:end]
        while body != inner:  # bodies of functions end as declarations do
            body, inner = inner, re.sub(r"\{[^{}]*\}", lambda block: ";" + re.sub(r"[^\n]", " ", block[0][1:]), inner)
        has_parameters = re.search(rf"(?<!~)\b{name}\s*\(\s*(?!void\b)\w", body)
        is_elsewhere = rf"__(?:shared|constant|device)__[^;{{}}()]*\b{name}\b\s+\w+\s*[\[;,=]"
        if not has_parameters or re.search(is_elsewhere, plain):
            continue
        for declaration in _MEMBERS.finditer(body):
            for each in re.finditer(r"\w+", declaration[1]):
                at = begin + declaration.start(1) + each.start()
                found.append(Member(each[0], plain.count("\n", 0, at) + 1))
    return found


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
    for each in dict.fromkeys(variables):
        begin = begins[each.declared - 1] if 0 < each.declared <= len(begins) else len(source)
        if isinstance(each, Member):
            if member := re.compile(rf"(?<!\w){re.escape(each.name)}(?=\s*[,;])").search(source, begin):
                statements.setdefault(member.end(), []).append(f" = tiledmm_detail::{value}()")
        elif end := _end_of_declaration(source, each.name, begin):
            statements.setdefault(end, []).append(f" tiledmm_detail::{value}::fill({each.name});")
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
