"""Translation of an asm statement's PTX to C++, and the instructions that are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiledmm.simulator.build.translation.ptx.instruction import OWN_CODE, Instruction, find_instruction, split
from tiledmm.simulator.build.translation.ptx.registers import BITS, CARRY, PREFIX, RefusedError, Register, register_type

#: C++ of the special registers.
SPECIAL = {
    "%laneid": "tiledmm_lane()",
    "%warpid": "(tiledmm_ptx::thread_number() / 32)",
    "%nwarpid": "((blockDim.x * blockDim.y * blockDim.z + 31) / 32)",
    "%smid": "0u", "%nsmid": "1u", "%gridid": "0ull",
    "%clock": "static_cast<unsigned>(tiledmm_ptx::clock())",
    "%clock_hi": "static_cast<unsigned>(tiledmm_ptx::clock() >> 32)",
    "%clock64": "tiledmm_ptx::clock()", "%globaltimer": "tiledmm_ptx::clock()",
    "%globaltimer_lo": "static_cast<unsigned>(tiledmm_ptx::clock())",
    "%globaltimer_hi": "static_cast<unsigned>(tiledmm_ptx::clock() >> 32)",
    "%lanemask_eq": "(1u << tiledmm_lane())", "%lanemask_lt": "((1u << tiledmm_lane()) - 1)",
    "%lanemask_le": "((2u << tiledmm_lane()) - 1)", "%lanemask_ge": "~((1u << tiledmm_lane()) - 1)",
    "%lanemask_gt": "~((2u << tiledmm_lane()) - 1)",
    "WARP_SZ": "32",
}  # fmt: skip
_VECTORS = (
    ("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim"),
    ("cluster_ctaid", "tiledmm_cluster_block()"), ("cluster_nctaid", "tiledmm_cluster_size()"),
    ("clusterid", "tiledmm_cluster_index()"),
)  # fmt: skip
for _axis in "xyz":
    SPECIAL |= {f"%{_register}.{_axis}": f"{_variable}.{_axis}" for _register, _variable in _VECTORS}
    SPECIAL[f"%nclusterid.{_axis}"] = f"(gridDim.{_axis} / tiledmm_cluster_size().{_axis})"
SPECIAL |= {
    "%cluster_ctarank": "tiledmm_cluster_rank()",
    "%cluster_nctarank": "tiledmm_asynchronous::cluster_blocks()",
    "%is_explicit_cluster": "tiledmm_has_cluster()",
}

#: Why instructions are not simulated: opcodes that begin so, and what to use instead.
_REFUSED = (
    (("multimem",), "memory of several GPUs is not supported: use loads, stores and atomics of one GPU"),
    (("clusterlaunchcontrol",), "it needs Blackwell: take the next tile from an atomic counter"),
    (("st.bulk",), "it needs Blackwell: store zeros in a loop"),
    (
        ("tensormap", "fence.proxy.tensormap"),
        "tensor maps that a kernel changes are not supported: encode one map per tensor before the launch",
    ),
    (("tcgen05",), "Blackwell's tensor core instructions are not supported: use wgmma or mma.sync"),
    (("wmma",), "use ldmatrix and mma.sync, whose fragments have a documented layout"),
    (("bra", "brx", "call", "ret", "exit"), "write branches and loops in CUDA C, around the asm statement"),
    (("tex", "tld4", "txq", "suld", "sust", "sured", "suq"), "textures and surfaces are not supported"),
)


@dataclass(frozen=True, slots=True)
class Translated:
    """C++ of an asm statement's PTX.

    Attributes:
        code: C++ statements; empty if the PTX has no instructions.
        named: Numbers of the operands that instructions name.
        in_place: Numbers of the operands that are used as places of variables, not only by their values.
    """

    code: str
    named: frozenset[int]
    in_place: frozenset[int]


def translated(text: str, operands: list[Register], *, is_volatile: bool) -> Translated:
    """Translate the PTX of an asm statement to C++ statements.

    Args:
        text: The PTX, in which ``%0`` and so on are the operands.
        operands: Registers of the operands.
        is_volatile: Whether compilers keep the statement's order among others, as that of ``asm volatile``.

    Raises:
        RefusedError: If something in it cannot be translated.
    """
    translation = _Translation(text, operands, is_volatile)
    code = translation.code()
    return Translated(code, frozenset(translation.named), frozenset(translation.in_place))


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LABEL = re.compile(r"[\w$%]+\s*:(?!:)")
_GUARD = re.compile(r"@(!?)\s*([\w$%]+)\s*")
_OPCODE = re.compile(r"[a-z_]\w*(?:(?:\.|::)\w+)*")
_DECLARATION = re.compile(r"\.reg\s+\.(\w+)\s+(.+)", re.DOTALL)
_DECLARED = re.compile(r"([\w$%]+)(?:<(\d+)>)?")
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
_DECIMAL = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?|-?\d+[eE][+-]?\d+")
_HEX_FLOAT = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")
_OPERAND = re.compile(r"%(\d+)")
_NAME = re.compile(r"[\w$%.]+")


class _Translation:
    """Translation of the PTX of one asm statement.

    Args:
        text: The PTX.
        operands: Registers of the operands.
        is_volatile: Whether compilers keep the statement's order among others.
    """

    def __init__(self, text: str, operands: list[Register], is_volatile: bool) -> None:
        self._text = _COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)
        self._operands = operands
        self.named: set[int] = set()
        self.in_place: set[int] = set()
        self._scopes: list[dict[str, Register]] = [{}]
        self._declared = 0
        self._is_volatile = is_volatile
        self._sets_carry = self._reads_carry = False

    def code(self) -> str:
        text, at, out = self._text, 0, []
        while at < len(text):
            if text[at].isspace() or text[at] == ";":
                at += 1
            elif text[at] == "{":
                self._scopes.append({})
                out.append("{")
                at += 1
            elif text[at] == "}":
                if len(self._scopes) == 1:
                    raise RefusedError("a } in the inline PTX has no matching {", at)
                self._scopes.pop()
                out.append("}")
                at += 1
            else:
                end = text.find(";", at)
                try:
                    if end < 0:
                        raise RefusedError(f"the PTX instruction '{_brief(text[at:])}' does not end with a semicolon")
                    out.append(self._statement(" ".join(text[at:end].split())))
                except RefusedError as refused:
                    raise RefusedError(refused.reason, at) from None
                at = end + 1
        if len(self._scopes) > 1:
            raise RefusedError("a { in the inline PTX has no matching }", len(text))
        if self._sets_carry or self._reads_carry:
            volatile = str(self._is_volatile).lower()
            carry = f"tiledmm_carry({volatile})" if self._reads_carry else "false"
            out = [f"bool {CARRY} = {carry};", *out]
            out += [f"tiledmm_set_carry({CARRY}, {volatile});"] if self._sets_carry else []
        return " ".join(out)

    def _statement(self, text: str) -> str:
        if text.startswith("."):
            return self._declaration(text)
        if label := _LABEL.match(text):
            raise RefusedError(
                f"the label '{label[0]}' of inline PTX is not supported: write branches and loops in CUDA C"
            )
        if not (guard := _GUARD.match(text)):
            return self.instruction(text)
        predicate = self.register(guard[2])
        return f"if ({guard[1]}({predicate.code})) {{ {self.instruction(text[guard.end() :])} }}"

    def _declaration(self, text: str) -> str:
        found = _DECLARATION.fullmatch(text)
        if not found or found[1] not in BITS:
            raise RefusedError(f"the declaration '{_brief(text)}' of inline PTX is not supported: use .reg")
        out = []
        for declared in found[2].split(","):
            name = _DECLARED.fullmatch(declared.strip())
            if not name:
                raise RefusedError(f"the declaration '{_brief(text)}' of inline PTX is not supported: use .reg")
            for each in [f"{name[1]}{i}" for i in range(int(name[2]))] if name[2] else [name[1]]:
                self._declared += 1
                code = f"{PREFIX}r{self._declared}"
                self._scopes[-1][each] = Register(code, BITS[found[1]], writable=True)
                out.append(f"{register_type(found[1])} {code}{{}};")
        return " ".join(out)

    def instruction(self, text: str) -> str:
        found = _OPCODE.match(text)
        if not found:
            raise RefusedError(f"'{_brief(text)}' is not a PTX instruction")
        name = found[0]
        for prefixes, reason in _REFUSED:
            if any(name == prefix or name.startswith((prefix + ".", prefix + "::")) for prefix in prefixes):
                raise RefusedError(f"the simulator does not support the PTX instruction '{name}': {reason}")
        write, modifiers = find_instruction(name)
        if write is None:
            raise RefusedError(f"the simulator does not support the PTX instruction '{name}': {OWN_CODE}")
        opcode = name.split(".")[0]
        self._reads_carry |= opcode in ("addc", "subc", "madc") and not self._sets_carry
        self._sets_carry |= "cc" in modifiers
        return write(Instruction(name, modifiers, split(text[found.end() :]), self.register, self.place))

    def register(self, text: str) -> Register:
        """Return the register or constant that an operand's text names.

        Raises:
            RefusedError: If it names none.
        """
        if operand := _OPERAND.fullmatch(text):
            if int(operand[1]) >= len(self._operands):
                raise RefusedError(f"the inline PTX uses {text}, but its statement has {len(self._operands)} operands")
            self.named.add(int(operand[1]))
            return self._operands[int(operand[1])]
        for scope in reversed(self._scopes):
            if text in scope:
                return scope[text]
        if text in SPECIAL:
            bits = 1 if text == "%is_explicit_cluster" else 64 if text.endswith(("64", "timer", "gridid")) else 32
            return Register(SPECIAL[text], bits)
        if _INTEGER.fullmatch(text):
            digits = text.rstrip("U")
            if re.fullmatch(r"-?0[0-7]+", digits):
                return Register(f"{digits}ll", 0)
            return Register(f"{digits}ull" if int(digits, 0) > 0x7FFFFFFFFFFFFFFF else f"{digits}ll", 0)
        if _DECIMAL.fullmatch(text):
            return Register(text, 0)
        if found := _HEX_FLOAT.fullmatch(text):
            if found[1]:
                return Register(f"__uint_as_float(0x{found[1]}u)", 0)
            return Register(f"__longlong_as_double(0x{found[2]}ll)", 0)
        raise RefusedError(f"the inline PTX uses '{text}', which is neither an operand nor a register that it declares")

    def place(self, text: str) -> str:
        """Return the C++ expression for the address of the kernel's variable that an operand's text names.

        It is ``"nullptr"`` if it names none of the statement's operands.

        Raises:
            RefusedError: If it names no register or constant.
        """
        register = self.register(text)
        if operand := _OPERAND.fullmatch(text):
            self.in_place.add(int(operand[1]))
        return register.place


def _brief(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:37] + "..."
