"""Kernels whose matrices are structures of a pointer and sizes, as in the CUDA programming guide.

For such a kernel, a second kernel is generated whose parameters are the members, with names by which they are
recognized. It fills the structures and calls the first kernel. So the check of a product, which passes pointers and
sizes, works for such kernels, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tiledmm.errors import CompilationError
from tiledmm.own_kernels.roles import is_number, matrices_of
from tiledmm.simulator.build.debug import layouts
from tiledmm.simulator.build.debug.layouts import Layout
from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.build.parameters import FLOAT, OTHER, POINTER, Parameter

#: Name of the second kernel.
_NAME = "tiledmm_of_members"

# Meaning of a member, by its name without underscores.
_MEMBERS = {
    "rows": re.compile(r"n?(?:um)?rows?|h|height|m"),
    "columns": re.compile(r"n?(?:um)?col(?:umn)?s?|w|width|n"),
    "stride": re.compile(r"(?:row)?stride|ld|lda|ldim|leading(?:dim(?:ension)?)?|pitch"),
}


def of_members(kernel: NativeKernel) -> NativeKernel | None:
    """Return a kernel that computes the same product, with pointers and sizes as its parameters.

    Args:
        kernel: The kernel.

    Returns:
        The kernel; None unless the parameters are numbers and three structures, each with a pointer and sizes that are
        recognized by their names.
    """
    structures = [at for at, each in enumerate(kernel.parameters) if each.kind == OTHER and not is_number(each)]
    if len(structures) != 3:
        return None
    members = {at: _members(kernel.parameter_layout(at)) for at in structures}
    if not all(members.values()) or not all(
        is_number(each) for at, each in enumerate(kernel.parameters) if at not in structures
    ):
        return None
    text = f'{kernel.text}\n#line 1 "{_NAME}.h"\n{_second_kernel(kernel, members)}\n'
    try:
        return NativeKernel(text, kernel.places, _NAME, kernel.target, build=kernel.build, title=kernel.name)
    except CompilationError:  # a structure whose constructor takes arguments
        return None


def _members(layout: Layout | None) -> dict[str, str]:
    """Return the names of a matrix's members by their meaning; empty if the structure is not a matrix."""
    found: dict[str, str] = {}
    for name, _, each in layout.members if layout else ():
        if each.kind == layouts.POINTER and each.element is not None and each.element.kind != layouts.POINTER:
            what = "elements"
        else:
            plain = name.lower().replace("_", "")
            is_integer = each.kind in (layouts.SIGNED, layouts.UNSIGNED)
            what = next((key for key, names in _MEMBERS.items() if is_integer and names.fullmatch(plain)), "")
        if not what or what in found:
            return {}
        found[what] = name
    return found if {"elements", "rows", "columns"} <= set(found) else {}


def _second_kernel(kernel: NativeKernel, members: Mapping[int, Mapping[str, str]]) -> str:
    """Return the text of the second kernel."""
    pointers = {at: Parameter(kernel.parameters[at].name, "", POINTER, 8, False, FLOAT, 4, 4) for at in members}
    order = matrices_of(list(pointers.values()), range(len(pointers)))
    letters = {list(pointers)[at]: letter for letter, at in zip("abc", order, strict=True)}
    parameters, statements, arguments = [], [], []
    for at, each in enumerate(kernel.parameters):
        if at not in members:
            parameters.append(f"{each.type} {each.name}")
            arguments.append(each.name)
            continue
        letter, own = letters[at], members[at]
        names = {
            "elements": each.name, "rows": f"num_{letter}_rows", "columns": f"num_{letter}_columns",
            "stride": f"ld{letter}",
        }  # fmt: skip
        statements.append(f"{each.type} tiledmm_{letter} = {{}};")
        arguments.append(f"tiledmm_{letter}")
        for what, member in own.items():
            parameters.append(f"decltype({each.type}::{member}) {names[what]}")
            statements.append(f"tiledmm_{letter}.{member} = {names[what]};")
    body = " ".join([*statements, f"{kernel.name}({', '.join(arguments)});"])
    return f'extern "C" __global__ void {_NAME}({", ".join(parameters)}) {{ {body} }}'
