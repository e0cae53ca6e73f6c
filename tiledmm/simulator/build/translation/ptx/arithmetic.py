"""Instructions that compute: arithmetic, bits, comparisons, conversions and moves.

Instructions with one C++ function for each opcode are rows of ``ARITHMETIC``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.simulator.build.translation.ptx.instruction import Instruction, instruction
from tiledmm.simulator.build.translation.ptx.registers import (
    BITS,
    CARRY,
    CPP,
    FLOATS,
    INTEGERS,
    LOGICAL,
    PREFIX,
    REGISTER,
)


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """An instruction with one destination, and one C++ function for it.

    Attributes:
        inputs: One letter for each source operand: T for the instruction's type, W for twice its width, u for 32-bit
            unsigned, p for a predicate.
        types: Types that the instruction may have.
        function: Name of the C++ function; empty if it is that of the opcode.
        result: Type of the destination; empty if it is that of the instruction.
        modes: Groups of modifiers. One of each group must be given, and becomes part of the function's name.
        ignored: Modifiers that do not change a value here.
        rounds: Whether ``.rz``, ``.rm`` and ``.rp`` are allowed for float32.
    """

    inputs: str
    types: tuple[str, ...]
    function: str = ""
    result: str = ""
    modes: tuple[tuple[str, ...], ...] = ()
    ignored: tuple[str, ...] = ()
    rounds: bool = False


_APPROXIMATE = ("approx", "rn", "full")
ARITHMETIC = {
    "add": _Arithmetic("TT", INTEGERS + FLOATS, rounds=True),
    "sub": _Arithmetic("TT", INTEGERS + FLOATS, rounds=True),
    "mul": _Arithmetic("TT", FLOATS, rounds=True),
    "mul.lo": _Arithmetic("TT", INTEGERS, "mul_lo"),
    "mul.hi": _Arithmetic("TT", INTEGERS, "mul_hi"),
    "mul.wide": _Arithmetic("TT", INTEGERS[:4], "mul_wide", result="W"),
    "mad": _Arithmetic("TTT", ("f32", "f64"), "fma", rounds=True),
    "mad.lo": _Arithmetic("TTT", INTEGERS, "mad_lo"),
    "mad.hi": _Arithmetic("TTT", INTEGERS, "mad_hi"),
    "mad.wide": _Arithmetic("TTW", INTEGERS[:4], "mad_wide", result="W"),
    "fma": _Arithmetic("TTT", FLOATS, rounds=True),
    "div": _Arithmetic("TT", (*INTEGERS, "f32", "f64"), ignored=_APPROXIMATE),
    "rem": _Arithmetic("TT", INTEGERS),
    "neg": _Arithmetic("T", ("s16", "s32", "s64", *FLOATS)),
    "abs": _Arithmetic("T", ("s16", "s32", "s64", *FLOATS)),
    "min": _Arithmetic("TT", INTEGERS + FLOATS),
    "max": _Arithmetic("TT", INTEGERS + FLOATS),
    "ex2": _Arithmetic("T", ("f32", "f16", "bf16", "f16x2", "bf16x2"), ignored=_APPROXIMATE),
    "lg2": _Arithmetic("T", ("f32",), ignored=_APPROXIMATE),
    "rcp": _Arithmetic("T", ("f32", "f64"), ignored=_APPROXIMATE),
    "sqrt": _Arithmetic("T", ("f32", "f64"), ignored=_APPROXIMATE),
    "rsqrt": _Arithmetic("T", ("f32", "f64"), ignored=_APPROXIMATE),
    "sin": _Arithmetic("T", ("f32",), ignored=_APPROXIMATE),
    "cos": _Arithmetic("T", ("f32",), ignored=_APPROXIMATE),
    "tanh": _Arithmetic("T", ("f32", "f16", "bf16", "f16x2", "bf16x2"), ignored=_APPROXIMATE),
    "and": _Arithmetic("TT", LOGICAL, "and_"),
    "or": _Arithmetic("TT", LOGICAL, "or_"),
    "xor": _Arithmetic("TT", LOGICAL, "xor_"),
    "not": _Arithmetic("T", LOGICAL, "not_"),
    "shl": _Arithmetic("Tu", ("b16", "b32", "b64")),
    "shr": _Arithmetic("Tu", ("b16", "b32", "b64", *INTEGERS)),
    "shf": _Arithmetic("TTu", ("b32",), modes=(("l", "r"), ("wrap", "clamp"))),
    "bfe": _Arithmetic("Tuu", INTEGERS[2:]),
    "bfi": _Arithmetic("TTuu", ("b32", "b64")),
    "popc": _Arithmetic("T", ("b32", "b64"), result="u32"),
    "clz": _Arithmetic("T", ("b32", "b64"), result="u32"),
    "brev": _Arithmetic("T", ("b32", "b64")),
    "prmt": _Arithmetic("TTT", ("b32",)),
    "lop3": _Arithmetic("TTTu", ("b32",)),
}
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_ROUNDINGS = {
    "rn": "TO_NEAREST", "rz": "TO_ZERO", "rm": "DOWN", "rp": "UP",
    "rni": "TO_NEAREST", "rzi": "TO_ZERO", "rmi": "DOWN", "rpi": "UP",
}  # fmt: skip


@instruction(*{name.split(".")[0] for name in ARITHMETIC})
def _arithmetic(it: Instruction) -> str:
    opcode = it.name.split(".")[0]
    if opcode in ("add", "sub", "mad") and it.take(("cc",)):
        return _with_carry(it, opcode, sets=True)
    if opcode in ("mul", "mad") and (mode := it.take(("lo", "hi", "wide"))):
        opcode += f".{mode}"
    row = ARITHMETIC[opcode]
    modes = [it.take(group) for group in row.modes]
    if not all(modes):
        raise it.refuse("it needs " + " and ".join(" or ".join(f".{each}" for each in group) for group in row.modes))
    kind = it.take_type(row.types)
    for name in row.ignored:
        it.take((name,))
    rounding = it.take(("rn", "rz", "rm", "rp") if row.rounds and kind == "f32" else ("rn",) if row.rounds else ())
    flushes = it.take(("ftz",) if kind in FLOATS else ())
    saturates = it.take(("sat",) if kind in FLOATS and kind != "f64" else ())
    it.finish(1 + len(row.inputs))
    types = {"T": kind, "W": _WIDER.get(kind, ""), "u": "u32", "p": "pred"}
    sources = [it.source(text, types[letter]) for text, letter in zip(it.operands[1:], row.inputs, strict=True)]
    if flushes and kind == "f32":  # without effect on float16 here, whose subnormals are rarely meant
        sources = [f"tiledmm_ptx::flushed({source})" for source in sources]
    function = "_".join([row.function or opcode, *modes])
    to = f"<{CPP[kind]}, tiledmm_ptx::{_ROUNDINGS[rounding]}>" if rounding and rounding != "rn" else ""
    value = f"tiledmm_ptx::{function}{to}({', '.join(sources)})"
    if flushes and kind == "f32":
        value = f"tiledmm_ptx::flushed({value})"
    if saturates:
        value = f"tiledmm_ptx::saturated({value})"
    return it.put(it.operands[0], types.get(row.result, row.result) or kind, value)


@instruction("addc", "subc", "madc")
def _carried(it: Instruction) -> str:
    return _with_carry(it, it.name.split(".")[0][:3], sets=bool(it.take(("cc",))), reads=True)


def _with_carry(it: Instruction, opcode: str, *, sets: bool, reads: bool = False) -> str:
    """Return the C++ of an addition or subtraction that sets or reads the carry flag ``CARRY`` of its statement."""
    half = it.take(("lo", "hi")) if opcode == "mad" else ""
    if opcode == "mad" and not half:
        raise it.refuse("it computes .lo or .hi")
    kind = it.take_type(("u32", "s32", "u64", "s64"))
    it.finish(4 if half else 3)
    to, *sources = it.operands
    values = [it.source(text, kind) for text in sources]
    if half:
        values = [f"tiledmm_ptx::mul_{half}({values[0]}, {values[1]})", values[2]]
    out = f"{PREFIX}carried"
    function = "sub_carrying" if opcode == "sub" else "add_carrying"
    code = [
        f"bool {out} = {CARRY if reads else 'false'};",
        it.put(to, kind, f"tiledmm_ptx::{function}<{CPP[kind]}>({', '.join(values)}, {out})"),
        *([f"{CARRY} = {out};"] if sets else []),
    ]
    return f"{{ {' '.join(code)} }}"


@instruction("dp4a")
def _dp4a(it: Instruction) -> str:
    kinds = [it.take(("u32", "s32")) for _ in range(2)]
    if not all(kinds):
        raise it.refuse("it needs two types, .u32 or .s32")
    it.finish(4)
    kind = "s32" if "s32" in kinds else "u32"
    bytes_ = ", ".join("signed char" if each == "s32" else "unsigned char" for each in kinds)
    to, a, b, c = it.operands
    sources = f"{it.source(a, 'u32')}, {it.source(b, 'u32')}, {it.source(c, kind)}"
    return it.put(to, kind, f"tiledmm_ptx::dp4a<{bytes_}>({sources})")


@instruction("selp")
def _selp(it: Instruction) -> str:
    kind = it.take_type(("b16", "b32", "b64", *INTEGERS, "f32", "f64"))
    it.finish(4)
    to, a, b, predicate = it.operands
    return it.put(to, kind, f"{it.source(predicate, 'pred')} ? {it.source(a, kind)} : {it.source(b, kind)}")


_ORDERS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMPARISONS = (
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
)  # fmt: skip


@instruction("setp")
def _setp(it: Instruction) -> str:
    comparison = it.take(_COMPARISONS)
    combined = it.take(("and", "or", "xor"))
    it.take(("ftz",))
    kind = it.take_type(("b16", "b32", "b64", *INTEGERS, "f16", "bf16", "f32", "f64"))
    it.finish(4 if combined else 3)
    if not comparison:
        raise it.refuse("it names no comparison")
    to, a, b = it.operands[:3]
    first, _, second = (part.strip() for part in to.partition("|"))
    function = f"tiledmm_ptx::compare_{_ORDERS.get(comparison, comparison)}"
    holds, fails = f"{PREFIX}holds", f"!{PREFIX}holds"
    code = [f"const bool {holds} = {function}({it.source(a, kind)}, {it.source(b, kind)});"]
    if combined:
        code.append(f"const bool {PREFIX}other = {it.source(it.operands[3], 'pred')};")
        holds, fails = (f"tiledmm_ptx::{combined}_<bool>({each}, {PREFIX}other)" for each in (holds, fails))
    code.append(it.put(first, "pred", holds))
    if second:
        code.append(it.put(second, "pred", fails))
    return f"{{ {' '.join(code)} }}"


@instruction("cvt")
def _cvt(it: Instruction) -> str:
    rounding = it.take((*_ROUNDINGS, "rna"))
    flushes, saturates = it.take(("ftz",)), it.take(("sat",))
    to_type = it.take((*BITS, "tf32"))
    from_type = it.take(BITS)
    to_float, from_float = to_type in (*FLOATS, "tf32"), from_type in FLOATS
    if not to_type or not from_type or from_type.endswith("x2") or (to_type[0] == "b" and to_type[1:2].isdigit()):
        raise it.refuse("it names no two types that are converted")
    it.finish(3 if to_type.endswith("x2") else 2)
    to, *sources = it.operands
    values = [it.source(each, from_type, wider=not from_float) for each in sources]
    if flushes and from_type == "f32":
        values = [f"tiledmm_ptx::flushed({value})" for value in values]
    way = f"tiledmm_ptx::{_ROUNDINGS.get(rounding, 'TO_NEAREST')}"
    if to_type == "tf32":
        if rounding != "rna" or from_type != "f32":
            raise it.refuse("to tf32 it rounds by .rna")
        return it.put(to, "b32", f"tiledmm_ptx::convert_to_tf32({values[0]})")
    if rounding == "rna":
        raise it.refuse("only to tf32 it rounds by .rna")
    if to_type.endswith("x2"):
        if from_type != "f32":
            raise it.refuse("it packs two float32")
        value = f"tiledmm_ptx::convert_pair<{CPP[to_type[:-2]]}, {way}>({', '.join(values)})"
        return it.put(to, to_type, f"tiledmm_ptx::saturated({value})" if saturates else value)
    if not to_float and not from_float:
        if saturates:
            values[0] = f"tiledmm_ptx::convert_saturated<{CPP[to_type]}>({values[0]})"
        return it.put(to, to_type, f"static_cast<{CPP[to_type]}>({values[0]})", wider=True)
    if not to_float:
        if not rounding.endswith("i"):
            raise it.refuse("to integers it rounds by .rni, .rzi, .rmi or .rpi")
        return it.put(to, to_type, f"tiledmm_ptx::convert_to_integer<{CPP[to_type]}, {way}>({values[0]})", wider=True)
    if rounding.endswith("i"):
        if to_type != from_type:
            raise it.refuse("it rounds to whole numbers of the same type")
        value = f"tiledmm_ptx::convert_to_whole<{CPP[to_type]}, {way}>({values[0]})"
    else:
        if not from_float and rounding != "rn":
            raise it.refuse("integers are converted by .rn")
        value = f"tiledmm_ptx::convert_to_float<{CPP[to_type]}, {way}>({values[0]})"
    if saturates:
        value = f"tiledmm_ptx::saturated({value})"
    if flushes and to_type == "f32":
        value = f"tiledmm_ptx::flushed({value})"
    return it.put(to, to_type, value)


@instruction("mov")
def _mov(it: Instruction) -> str:
    kind = it.take_type(("pred", "b16", "b32", "b64", "b128", *INTEGERS, "f32", "f64"))
    it.finish(2)
    to, value = it.operands
    if value.startswith("{"):  # packs: the first element in the lowest bits
        parts = it.elements(value)
        bits = BITS[kind] // len(parts)
        part = f"b{bits}"
        if part not in BITS:
            raise it.refuse(f"it packs {len(parts)} elements")
        whole = f"unsigned {'__int128' if kind == 'b128' else 'long long'}"
        packed = " | ".join(
            f"static_cast<{whole}>({it.source(each, part)}) << {bits * i}" for i, each in enumerate(parts)
        )
        return it.put(to, kind, f"static_cast<{REGISTER[BITS[kind]]}>({packed})")
    if to.startswith("{"):
        parts = it.elements(to)
        bits = BITS[kind] // len(parts)
        part = f"b{bits}"
        if part not in BITS:
            raise it.refuse(f"it unpacks {len(parts)} elements")
        whole = f"{PREFIX}whole"
        unsigned = f"b{BITS[kind]}"
        puts = [it.put(each, part, f"static_cast<{CPP[part]}>({whole} >> {bits * i})") for i, each in enumerate(parts)]
        return f"{{ const auto {whole} = {it.source(value, unsigned)}; {' '.join(puts)} }}"
    return it.put(to, kind, it.source(value, kind))


@instruction("cvta")
def _cvta(it: Instruction) -> str:
    back = it.take(("to",))
    space = it.take_space()
    kind = it.take_type(("u32", "u64"))
    it.finish(2)
    to, value = it.operands
    source = it.source(value, kind)
    if space in ("shared", "cluster"):
        to_shared, to_generic = {
            "shared": ("tiledmm_shared_offset", "tiledmm_ptx::shared"),
            "cluster": ("tiledmm_window_address", "tiledmm_asynchronous::cluster_memory"),
        }[space]
        if back:
            source = f"{to_shared}(tiledmm_ptx::global({source}))"
        else:
            source = f"reinterpret_cast<unsigned long>({to_generic}({source}))"
    return it.put(to, kind, f"static_cast<{CPP[kind]}>({source})")
