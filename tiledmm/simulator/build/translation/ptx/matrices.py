"""Matrix instructions: ldmatrix, stmatrix and mma.sync."""

from __future__ import annotations

import re

from tiledmm.simulator.build.translation.ptx.instruction import Instruction, instruction
from tiledmm.simulator.build.translation.ptx.registers import CPP, PREFIX


@instruction("ldmatrix")
def _ldmatrix(it: Instruction) -> str:
    count, transposed, space = _modifiers(it, "reads")
    to, address = it.operands
    fragment = f"{PREFIX}fragment"
    puts = [it.put(part, "b32", f"{fragment}[{i}]") for i, part in enumerate(it.vector(to, count, "b32"))]
    load = f"tiledmm_ptx::ldmatrix<{count}, {transposed}>({fragment}, {it.address(address, space)});"
    return f"{{ unsigned {fragment}[{count}]; {load} {' '.join(puts)} }}"


@instruction("stmatrix")
def _stmatrix(it: Instruction) -> str:
    count, transposed, space = _modifiers(it, "writes")
    address, source = it.operands
    fragment = f"{PREFIX}fragment"
    values = ", ".join(it.source(part, "b32") for part in it.vector(source, count, "b32"))
    store = f"tiledmm_ptx::stmatrix<{count}, {transposed}>({it.address(address, space)}, {fragment});"
    return f"{{ const unsigned {fragment}[{count}] = {{{values}}}; {store} }}"


def _modifiers(it: Instruction, verb: str) -> tuple[int, str, str]:
    """Consume the modifiers of ldmatrix or stmatrix, and return the matrices, whether transposed, and the space."""
    for name in ("sync", "aligned", "m8n8", "b16"):
        if not it.take((name,)):
            raise it.refuse(f"it has no '.{name}'")
    count = int((it.take(("x1", "x2", "x4")) or "x0")[1:])
    if not count:
        raise it.refuse(f"it {verb} .x1, .x2 or .x4 matrices")
    transposed = "true" if it.take(("trans",)) else "false"
    space = it.take_space()
    if space not in ("shared", ""):
        raise it.refuse(f"it {verb} the block's own shared memory")
    it.finish(2)
    return count, transposed, space


#: Elements of A and B: their bits, and their C++ type.
_ELEMENTS = {
    "f16": (16, "Float16"), "bf16": (16, "Bfloat16"), "tf32": (32, "Tf32"), "s8": (8, "Int8"), "u8": (8, "Uint8"),
    "f64": (64, ""),
}  # fmt: skip
_SHAPES = {
    "f16": ("m16n8k8", "m16n8k16"), "bf16": ("m16n8k8", "m16n8k16"), "tf32": ("m16n8k4", "m16n8k8"),
    "s8": ("m8n8k16", "m16n8k16", "m16n8k32"), "u8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
}  # fmt: skip


@instruction("mma")
def _mma(it: Instruction) -> str:
    for name in ("sync", "aligned", "row", "col"):
        if not it.take((name,)):
            raise it.refuse(f"it has no '.{name}'")
    saturates = "true" if it.take(("satfinite",)) else "false"
    if len(it.modifiers) != 5:
        raise it.refuse("it must have one shape and four types")
    shape, d_type, a_type, b_type, c_type = it.modifiers
    it.modifiers = []
    it.finish(4)
    integers = a_type in ("s8", "u8")
    sums = {"f64": ("f64",), "f16": ("f32", "f16")}.get(a_type, ("s32",) if integers else ("f32",))
    if shape not in _SHAPES.get(a_type, ()) or d_type not in sums or c_type != d_type:
        raise it.refuse("the shapes are " + ", ".join(f"{'/'.join(v)} of {k}" for k, v in _SHAPES.items()))
    if b_type != a_type and not (integers and b_type in ("s8", "u8")):
        raise it.refuse("A and B must have the same type")
    if saturates == "true" and not integers:
        raise it.refuse("only integers can be saturated")
    rows, k = (int(part) for part in re.findall(r"m(\d+)n8k(\d+)", shape)[0])
    bits = _ELEMENTS[a_type][0]
    registers = k // 4 if bits == 64 else k * bits // 128
    of_a = rows // 8 * registers
    sum_kind = {"f64": "f64", "f32": "f32", "f16": "b32", "s32": "u32"}[d_type]
    of_c = rows // 8 if d_type == "f16" else rows // 4
    factor = "f64" if bits == 64 else "b32"
    names = [f"{PREFIX}{letter}" for letter in "dabc"]
    counts = (of_c, of_a, registers, of_c)
    parts = [it.elements(text) for text in it.operands]
    for letter, part, count in zip("DABC", parts, counts, strict=True):
        if len(part) != count:
            raise it.refuse(f"{letter} has {len(part)} registers here, but needs {count}")
    code = [f"{CPP[sum_kind]} {names[0]}[{of_c}];"]
    for name, part, kind in zip(names[1:], parts[1:], (factor, factor, sum_kind), strict=True):
        values = ", ".join(it.source(each, kind) for each in part)
        code.append(f"const {CPP[kind]} {name}[{len(part)}] = {{{values}}};")
    if bits == 64:
        function = f"mma_double<{rows}, {registers}>"
    else:
        types = ", ".join(f"tiledmm_detail::{_ELEMENTS[each][1]}" for each in (a_type, b_type))
        name = "mma_half" if d_type == "f16" else "mma"
        function = f"{name}<tiledmm_ptx::Factors<{types}>, {rows}, {registers}, {saturates}>"
    code.append(f"tiledmm_ptx::{function}({', '.join(names)});")
    code += [it.put(part, sum_kind, f"{names[0]}[{i}]") for i, part in enumerate(parts[0])]
    return f"{{ {' '.join(code)} }}"
