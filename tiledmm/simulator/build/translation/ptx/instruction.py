"""One instruction, whose modifiers and operands are consumed one after the other, and the table of all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tiledmm.simulator.build.translation.ptx.registers import BITS, CPP, RefusedError, Register

#: What to do without an instruction.
OWN_CODE = "write it in CUDA C, or keep it and add a CPU version: #ifdef TILEDMM_SIMULATOR ... #else <asm> #endif"


def split(text: str) -> list[str]:
    """Return the operands, which commas outside of brackets separate."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return [*parts, last] if parts or last else []


@dataclass
class Instruction:
    """One instruction, whose modifiers and operands a function of ``INSTRUCTIONS`` consumes.

    Attributes:
        name: Opcode with modifiers.
        modifiers: Those that nobody has consumed.
        operands: Their text.
        register: The register or constant that an operand's text names.
    """

    name: str
    modifiers: list[str]
    operands: list[str]
    register: Callable[[str], Register] = field(repr=False)

    def refuse(self, why: str) -> RefusedError:
        """Return an error about this instruction."""
        return RefusedError(f"the simulator has no PTX instruction '{self.name}': {why}; {OWN_CODE}")

    def take(self, names: Iterable[str]) -> str:
        """Consume the first modifier among these, if there is one; return ``""`` if not."""
        wanted = set(names)
        for at, modifier in enumerate(self.modifiers):
            if modifier in wanted:
                return self.modifiers.pop(at)
        return ""

    def take_type(self, types: Iterable[str]) -> str:
        """Consume the instruction's type, which must be one of these."""
        types = tuple(types)
        kind = self.take(BITS)
        if kind not in types:
            raise self.refuse(f"its type is one of {', '.join(types)}")
        return kind

    def finish(self, *counts: int) -> None:
        """Check that no modifier is left, and the number of operands."""
        if self.modifiers:
            raise self.refuse(f"'.{self.modifiers[0]}' is not simulated here")
        if len(self.operands) not in counts:
            raise self.refuse(f"it has {len(self.operands)} operands here, and takes {' or '.join(map(str, counts))}")

    def source(self, text: str, kind: str, *, wider: bool = False) -> str:
        """Return C++ for an operand's value as type ``kind``. If ``wider``, its register may have more bits."""
        if text.startswith("!") and kind == "pred":
            return f"!{self.source(text[1:], kind)}"
        register = self.register(text)
        self._check(text, register, kind, wider)
        return f"tiledmm_ptx::as<{CPP[kind]}>({register.code})"

    def destination(self, text: str, kind: str, *, wider: bool = False) -> str:
        """Return C++ for a register that is written with a value of this type."""
        if text == "_":
            return "tiledmm_ptx::Sink{}"
        register = self.register(text)
        if not register.writable:
            raise self.refuse(f"it writes {text}, which is no output operand")
        self._check(text, register, kind, wider)
        return register.code

    def put(self, text: str, kind: str, value: str, *, wider: bool = False) -> str:
        """Return the C++ statement that writes a register."""
        return f"tiledmm_ptx::put({self.destination(text, kind, wider=wider)}, {value});"

    def _check(self, text: str, register: Register, kind: str, wider: bool) -> None:
        bits = BITS[kind]
        if register.bits and (register.bits < bits or (register.bits > bits and not wider)):
            raise self.refuse(f"operand {text} has {register.bits} bits, and .{kind} {bits}")

    def elements(self, text: str) -> list[str]:
        """Return the elements of a vector operand ``{ a, b }``, or the operand itself."""
        return split(text[1:-1]) if text.startswith("{") and text.endswith("}") else [text]

    def vector(self, text: str, count: int, kind: str) -> list[str]:
        """Return the elements of a vector operand that is accessed at once."""
        parts = self.elements(text)
        if len(parts) != count:
            raise self.refuse(f"a vector of {count} has {len(parts)} registers here")
        if BITS[kind] * count > 128:
            raise self.refuse("an access has 16 bytes at most")
        return parts

    def constant(self, text: str) -> str:
        """Return C++ for an operand that must be a constant."""
        register = self.register(text)
        if register.bits:
            raise self.refuse(f"operand {text} must be a constant")
        return register.code

    def address(self, text: str, space: str) -> str:
        """Return C++ for the pointer ``[register + constant]`` in this state space."""
        if not (text.startswith("[") and text.endswith("]")):
            raise self.refuse(f"operand {text} is no address in brackets")
        terms = re.split(r"\s*([+-])\s*", text[1:-1].strip())
        if terms[0] == "":
            raise self.refuse(f"operand {text} is no register and offset")
        base = self.register(terms[0])
        if base.bits not in ((0, 32, 64) if space == "shared" else (0, 64)):
            raise self.refuse(f"the address {text} has {base.bits} bits")
        offset = "".join(
            f" {sign} static_cast<long long>({self.constant(term)})"
            for sign, term in zip(terms[1::2], terms[2::2], strict=True)
        )
        if space == "shared":
            return f"tiledmm_ptx::shared({base.code}{offset})"
        return f"tiledmm_ptx::global({base.code}{offset})"

    def take_space(self) -> str:
        """Consume the state space: ``"shared"``, ``"global"``, or ``""`` for generic addresses."""
        space = self.take(("shared", "shared::cta", "global"))
        return "shared" if space.startswith("shared") else space


INSTRUCTIONS: dict[str, Callable[[Instruction], str]] = {}


def instruction(*opcodes: str) -> Callable[[Callable[[Instruction], str]], Callable[[Instruction], str]]:
    """Enter a function for the opcodes that begin with one of these names."""

    def enter(write: Callable[[Instruction], str]) -> Callable[[Instruction], str]:
        for opcode in opcodes:
            INSTRUCTIONS[opcode] = write
        return write

    return enter
