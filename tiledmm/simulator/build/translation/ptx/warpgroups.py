"""Matrix multiply-accumulate of a warpgroup (wgmma), and register reallocation."""

from __future__ import annotations

import re

from tiledmm.simulator.build.translation.ptx.instruction import Instruction, instruction
from tiledmm.simulator.build.translation.ptx.registers import PREFIX

_HELPERS = "tiledmm_asynchronous::"

#: Depth of a product for each type of A and B, and the types of its sums.
_FACTORS = {
    "f16": (16, ("f32", "f16")), "bf16": (16, ("f32",)), "tf32": (8, ("f32",)),
    "e4m3": (32, ("f32", "f16")), "e5m2": (32, ("f32", "f16")), "s8": (32, ("s32",)), "u8": (32, ("s32",)),
}  # fmt: skip
#: Types of A and B that may be combined with each other.
_MIXED = (("e4m3", "e5m2"), ("s8", "u8"))


@instruction("wgmma")
def _wgmma(it: Instruction) -> str:
    way = it.take(("mma_async", "fence", "commit_group", "wait_group"))
    if not way:
        raise it.refuse("its operations are .mma_async, .fence, .commit_group and .wait_group")
    if it.take(("sp",)):
        raise it.refuse("sparse matrices are not supported, multiply the dense ones")
    for name in ("sync", "aligned"):
        if not it.take((name,)):
            raise it.refuse(f"it has no '.{name}'")
    if way == "mma_async":
        return _mma_async(it)
    it.finish(1 if way == "wait_group" else 0)
    call = {
        "fence": "tiledmm_wgmma_fence()", "commit_group": "tiledmm_wgmma_commit()",
    }.get(way) or f"tiledmm_wgmma_wait({it.constant(it.operands[0])})"  # fmt: skip
    return f"tiledmm_ptx::compiler_fence(); {call}; tiledmm_ptx::compiler_fence();"


def _mma_async(it: Instruction) -> str:
    saturates = int(bool(it.take(("satfinite",))))
    if len(it.modifiers) != 4:
        raise it.refuse("it must have one shape and three types")
    shape, sum_type, a_type, b_type = it.modifiers
    it.modifiers = []
    integers = a_type in ("s8", "u8")
    columns, depth = _shape(it, shape, a_type, integers)
    if sum_type not in _FACTORS[a_type][1]:
        raise it.refuse(f"sums of {a_type} are {' or '.join(_FACTORS[a_type][1])}")
    if b_type != a_type and not any(a_type in types and b_type in types for types in _MIXED):
        raise it.refuse("A and B must have the same type")
    if saturates and not integers:
        raise it.refuse("only integers can be saturated")

    d, a, b, *rest = it.operands or [""]
    from_registers = a.startswith("{")
    transposes = (1 if from_registers else 2) if depth == 16 else 0  # operands that say whether a matrix is MN-major
    it.finish(4 + (0 if integers else 2) + transposes)
    scale_d, *constants = rest
    scale_a, scale_b = [_constant(it, text, (1, -1)) for text in constants[:2]] or ["1", "1"]
    transposed = [_constant(it, text, (0, 1)) for text in constants[2:]]
    transpose_a, transpose_b = ["0"] * (2 - len(transposed)) + transposed

    sums = it.elements(d)
    count = columns // 4 if sum_type == "f16" else columns // 2
    if len(sums) != count:
        raise it.refuse(f"D has {len(sums)} registers here, but needs {count}")
    sum_kind = "f32" if sum_type == "f32" else "b32"
    places = []
    for text in sums:
        it.destination(text, sum_kind)
        place = it.place(text)
        if place == "nullptr":
            raise it.refuse(
                f"{text} of D must be an output operand, whose variable gets the sum when the group completes"
            )
        places.append(place)

    a_values, a_places, a_descriptor = "", "", "0"
    if from_registers:
        fragment = it.elements(a)
        if len(fragment) != 4:
            raise it.refuse(f"A has {len(fragment)} registers here, but needs 4")
        places_of_a = [it.place(text) for text in fragment]
        a_values = ", ".join(map(_fragment_value, [it] * 4, fragment, places_of_a))
        a_places = ", ".join(places_of_a)
    else:
        a_descriptor = it.source(a, "b64")
    names = (f"{PREFIX}sums", f"{PREFIX}product")
    fields = (
        *(f"{_HELPERS}type_{kind}" for kind in (a_type, b_type, sum_type)), str(columns), str(depth), str(count),
        names[0], str(int(from_registers)), f"{{{a_values}}}", f"{{{a_places}}}", a_descriptor, it.source(b, "b64"),
        it.source(scale_d, "pred"), scale_a, scale_b, transpose_a, transpose_b, str(saturates),
    )  # fmt: skip
    return (
        f"{{ void* const {names[0]}[] = {{{', '.join(places)}}}; "
        f"const tiledmm_detail::Wgmma {names[1]} = {{{', '.join(fields)}}}; "
        f"tiledmm_ptx::compiler_fence(); tiledmm_wgmma(&{names[1]}); }}"
    )


def _fragment_value(it: Instruction, text: str, place: str) -> str:
    """Return the C++ for the value of a register of A, whose place is null if it is none of the kernel's variables."""
    value = it.source(text, "b32")
    return value if place == "nullptr" else f"{_HELPERS}unchecked({it.register(text).code})"


def _shape(it: Instruction, shape: str, a_type: str, integers: bool) -> tuple[int, int]:
    """Return the columns and the depth of a product.

    Raises:
        RefusedError: If the type of A has no such shape.
    """
    if a_type not in _FACTORS:
        raise it.refuse(f"the types of A and B are {', '.join(_FACTORS)}")
    depth = _FACTORS[a_type][0]
    found = re.fullmatch(r"m64n(\d+)k(\d+)", shape)
    columns = int(found[1]) if found else 0
    known = columns in (8, 24) or columns % 16 == 0 if integers else columns % 8 == 0
    if not found or int(found[2]) != depth or not 8 <= columns <= 256 or not known:
        steps = "8, 16, 24, 32, and from 48 on a multiple of 16" if integers else "a multiple of 8"
        raise it.refuse(f"the shapes of {a_type} are m64nNk{depth} with N up to 256: {steps}")
    return columns, depth


def _constant(it: Instruction, text: str, values: tuple[int, ...]) -> str:
    """Return the C++ of an operand that must be one of two constants."""
    code = it.constant(text)
    if re.fullmatch(r"-?\d+", text):
        if int(text) not in values:
            raise it.refuse(f"operand {text} must be {values[0]} or {values[1]}")
        return text
    return f"{_HELPERS}one_of<{code}, {values[0]}, {values[1]}>"


@instruction("setmaxnreg")
def _setmaxnreg(it: Instruction) -> str:
    way = it.take(("inc", "dec"))
    for name in ("sync", "aligned", "u32"):
        if not it.take((name,)):
            raise it.refuse(f"it has no '.{name}'")
    it.finish(1)
    if not way:
        raise it.refuse("its modes are .inc and .dec")
    (count,) = it.operands
    if count.isdecimal() and not (24 <= int(count) <= 256 and int(count) % 8 == 0):
        raise it.refuse(f"the number of registers must be a multiple of 8 from 24 to 256; got {count}")
    return f"{_HELPERS}set_registers<{it.constant(count)}, {int(way == 'inc')}>();"
