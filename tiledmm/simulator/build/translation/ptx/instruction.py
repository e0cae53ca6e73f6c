"""One instruction, whose modifiers and operands are consumed one after the other, and the table of all instructions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tiledmm.simulator.build.translation.ptx.registers import BITS, CPP, RefusedError, Register

#: Advice if an instruction is not simulated.
OWN_CODE = "write it in CUDA C, or keep it and add a CPU version: #ifdef TILEDMM_SIMULATOR ... #else <asm> #endif"


def split(text: str) -> list[str]:
    """Split the text of an instruction's operands at the commas outside of brackets, and return the operands."""
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
        name: Opcode with all modifiers.
        modifiers: Modifiers that have not been consumed yet.
        operands: Text of each operand.
        register: Function that returns the register or constant that an operand's text names.
        place: Function that returns the C++ expression for the address of the variable that is such a register:
            ``"nullptr"`` if none of the kernel's variables is.
    """

    name: str
    modifiers: list[str]
    operands: list[str]
    register: Callable[[str], Register] = field(repr=False)
    place: Callable[[str], str] = field(repr=False)

    def refuse(self, why: str) -> RefusedError:
        """Return an error that says that this instruction is not simulated, for the caller to raise.

        Args:
            why: The reason, as a part of a sentence.
        """
        return RefusedError(f"the simulator does not support the PTX instruction '{self.name}': {why}; {OWN_CODE}")

    def take(self, names: Iterable[str]) -> str:
        """Consume the first modifier that is one of ``names``, and return it; return ``""`` if there is none."""
        wanted = set(names)
        for at, modifier in enumerate(self.modifiers):
            if modifier in wanted:
                return self.modifiers.pop(at)
        return ""

    def take_type(self, types: Iterable[str]) -> str:
        """Consume the instruction's type, and return it.

        Raises:
            RefusedError: If it is none of ``types``.
        """
        types = tuple(types)
        kind = self.take(BITS)
        if kind not in types:
            raise self.refuse(f"its type must be one of {', '.join(types)}")
        return kind

    def finish(self, *counts: int) -> None:
        """Check that all modifiers are consumed, and that the number of operands is one of ``counts``.

        Raises:
            RefusedError: If a modifier is left, or if the number of operands is another.
        """
        if self.modifiers:
            raise self.refuse(f"'.{self.modifiers[0]}' is not supported here")
        if len(self.operands) not in counts:
            raise self.refuse(f"it has {len(self.operands)} operands here, but needs {' or '.join(map(str, counts))}")

    def source(self, text: str, kind: str, *, wider: bool = False) -> str:
        """Return the C++ expression for the value of a source operand, converted to a PTX type.

        Args:
            text: Text of the operand.
            kind: A PTX type, such as ``"u32"``.
            wider: Whether the operand's register may have more bits than the type.

        Raises:
            RefusedError: If the register's size does not fit.
        """
        if text.startswith("!") and kind == "pred":
            return f"!{self.source(text[1:], kind)}"
        register = self.register(text)
        self._check(text, register, kind, wider)
        return f"tiledmm_ptx::as<{CPP[kind]}>({register.code})"

    def destination(self, text: str, kind: str, *, wider: bool = False) -> str:
        """Return the C++ lvalue of a destination operand, to which a value of a PTX type is written.

        Args:
            text: Text of the operand.
            kind: A PTX type, such as ``"u32"``.
            wider: Whether the operand's register may have more bits than the type.

        Raises:
            RefusedError: If the register's size does not fit, or if the operand cannot be written.
        """
        if text == "_":
            return "tiledmm_ptx::Sink{}"
        register = self.register(text)
        if not register.writable:
            raise self.refuse(f"it writes {text}, which is not an output operand")
        self._check(text, register, kind, wider)
        return register.code

    def put(self, text: str, kind: str, value: str, *, wider: bool = False) -> str:
        """Return the C++ statement that writes a value to a destination operand.

        Args:
            text: Text of the operand.
            kind: PTX type of the value, such as ``"u32"``.
            value: C++ expression of the value.
            wider: Whether the operand's register may have more bits than the type.
        """
        return f"tiledmm_ptx::put({self.destination(text, kind, wider=wider)}, {value});"

    def _check(self, text: str, register: Register, kind: str, wider: bool) -> None:
        bits = BITS[kind]
        if register.bits and (register.bits < bits or (register.bits > bits and not wider)):
            raise self.refuse(f"operand {text} has {register.bits} bits, but .{kind} has {bits}")

    def elements(self, text: str) -> list[str]:
        """Return the texts of the elements of a vector operand, such as ``{ a, b }``.

        An operand that is not a vector is returned as its only element.
        """
        return split(text[1:-1]) if text.startswith("{") and text.endswith("}") else [text]

    def vector(self, text: str, count: int, kind: str) -> list[str]:
        """Return the texts of the elements of a vector operand, which one access reads or writes.

        Args:
            text: Text of the operand.
            count: Number of elements that the instruction has.
            kind: PTX type of an element.

        Raises:
            RefusedError: If the operand has another number of elements, or if they have more than 16 bytes.
        """
        parts = self.elements(text)
        if len(parts) != count:
            raise self.refuse(f"a vector of {count} elements has {len(parts)} registers here")
        if BITS[kind] * count > 128:
            raise self.refuse("an access has at most 16 bytes")
        return parts

    def constant(self, text: str) -> str:
        """Return the C++ expression for an operand that must be a constant.

        Raises:
            RefusedError: If it is a register.
        """
        register = self.register(text)
        if register.bits:
            raise self.refuse(f"operand {text} must be a constant")
        return register.code

    def address(self, text: str, space: str) -> str:
        """Return the C++ expression of the pointer for an address operand ``[register + constant]``.

        Args:
            text: Text of the operand.
            space: State space: ``"shared"``, ``"cluster"`` for the shared memory of all blocks of the cluster,
                ``"global"``, or ``""`` for generic addresses.

        Raises:
            RefusedError: If the operand has another form, or if its register has the wrong size.
        """
        function = {
            "shared": "tiledmm_ptx::shared", "cluster": "tiledmm_asynchronous::cluster_memory",
        }.get(space, "tiledmm_ptx::global")  # fmt: skip
        return f"{function}({self._in_brackets(text, space)})"

    def shared_number(self, text: str, space: str) -> str:
        """Return the C++ expression of the 32-bit number of an address operand in the shared memory of the cluster.

        Args:
            text: Text of the operand.
            space: State space: ``"shared"``, ``"cluster"``, or ``""`` for generic addresses.

        Raises:
            RefusedError: If the operand has another form, or if its register has the wrong size.
        """
        function = "shared_number" if space else "window_number"
        return f"tiledmm_asynchronous::{function}({self._in_brackets(text, space)})"

    def _in_brackets(self, text: str, space: str) -> str:
        if not (text.startswith("[") and text.endswith("]")):
            raise self.refuse(f"operand {text} is not an address in brackets")
        terms = re.split(r"\s*([+-])\s*", text[1:-1].strip())
        if terms[0] == "":
            raise self.refuse(f"operand {text} is not a register with an offset")
        base = self.register(terms[0])
        if base.bits not in ((0, 32, 64) if space in ("shared", "cluster") else (0, 64)):
            raise self.refuse(f"the address {text} has {base.bits} bits")
        return base.code + "".join(
            f" {sign} static_cast<long long>({self.constant(term)})"
            for sign, term in zip(terms[1::2], terms[2::2], strict=True)
        )

    def take_space(self) -> str:
        """Consume the state space and return it.

        It is ``"shared"``, ``"cluster"`` for ``.shared::cluster``, ``"global"``, or ``""`` for generic addresses.
        """
        space = self.take(("shared", "shared::cta", "shared::cluster", "global"))
        return {"shared::cta": "shared", "shared::cluster": "cluster"}.get(space, space)

    def take_hint(self) -> bool:
        """Consume ``.L2::cache_hint`` and its operand, the last one, and return whether there is one."""
        if not self.take(("L2::cache_hint",)):
            return False
        if not self.operands:
            raise self.refuse("its cache policy is missing")
        self.source(self.operands.pop(), "b64")
        return True


INSTRUCTIONS: dict[str, Callable[[Instruction], str]] = {}
_LONGEST = 4  # parts of an opcode: cp.reduce.async.bulk


def instruction(*opcodes: str) -> Callable[[Callable[[Instruction], str]], Callable[[Instruction], str]]:
    """Return a decorator that registers a function as the translator of some instructions.

    These are the instructions whose names begin with one of the given opcodes, such as ``"cp"`` or ``"cp.async.bulk"``.
    The function of the longest such opcode returns their C++.
    """

    def enter(write: Callable[[Instruction], str]) -> Callable[[Instruction], str]:
        for opcode in opcodes:
            INSTRUCTIONS[opcode] = write
        return write

    return enter


def find_instruction(name: str) -> tuple[Callable[[Instruction], str] | None, list[str]]:
    """Return the function that translates the instruction of a name, and the modifiers after the opcode.

    The function is None if there is none.
    """
    parts = name.split(".")
    for count in range(min(len(parts), _LONGEST), 0, -1):
        if write := INSTRUCTIONS.get(".".join(parts[:count])):
            return write, parts[count:]
    return None, []
