"""Types and registers of PTX, and the C++ types and expressions for them."""

from __future__ import annotations

from dataclasses import dataclass

#: Before every name that the C++ of a statement declares.
PREFIX = "tiledmm_ptx_"
#: The C++ variable that holds the carry flag of an asm statement, which ``add.cc`` sets and ``addc`` reads.
CARRY = f"{PREFIX}carry"

#: Number of bits of each PTX type.
BITS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64, "b128": 128,
}  # fmt: skip
#: C++ type of each PTX type.
CPP = {
    "pred": "bool", "b8": "unsigned char", "u8": "unsigned char", "s8": "signed char",
    "b16": "unsigned short", "u16": "unsigned short", "s16": "short",
    "b32": "unsigned", "u32": "unsigned", "s32": "int", "b64": "unsigned long long", "u64": "unsigned long long",
    "s64": "long long", "b128": "unsigned __int128", "f32": "float", "f64": "double",
    "f16": "tiledmm_ptx::Half", "bf16": "tiledmm_ptx::Bfloat",
    "f16x2": "tiledmm_ptx::Pair<tiledmm_ptx::Half>", "bf16x2": "tiledmm_ptx::Pair<tiledmm_ptx::Bfloat>",
}  # fmt: skip
#: The C++ type of a register of each size that is neither float nor double.
REGISTER = {1: "bool", 8: "unsigned char", 16: "unsigned short", 32: "unsigned", 64: "unsigned long long"} | {
    128: "unsigned __int128"
}

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
FLOATS = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")
LOGICAL = ("pred", "b16", "b32", "b64")


class RefusedError(Exception):
    """An instruction that cannot be translated.

    Attributes:
        reason: One sentence.
        at: Offset in the text of the asm statement.
    """

    def __init__(self, reason: str, at: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


@dataclass(frozen=True, slots=True)
class Register:
    """A register, a constant, or a special register.

    Attributes:
        code: C++ expression; an lvalue if it can be written.
        bits: Size in bits; 0 for a constant, which gets the size of the instruction's type.
        writable: Whether it can be a destination.
        place: C++ expression for the address of the kernel's variable that it is; ``"nullptr"`` if it is none.
    """

    code: str
    bits: int
    writable: bool = False
    place: str = "nullptr"


def register_type(kind: str) -> str:
    """Return the C++ type of a register declared with a PTX type, such as ``unsigned`` for ``s32``."""
    return CPP[kind] if kind in ("f32", "f64") else REGISTER[BITS[kind]]
