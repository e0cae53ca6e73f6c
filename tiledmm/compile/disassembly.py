"""Disassembly of machine code: the source line and width of each memory access. Needs no GPU."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tiledmm.compile.inspection import compile_for
from tiledmm.errors import INSTALL, CompilationError, MissingDependencyError

# "	//## File "kernel.cu", line 89 inlined at "kernel.cu", line 382": one line per level of inlining, innermost first.
_LINE = re.compile(r'^\s*//## File "[^"]*", line (\d+)(?: inlined at "[^"]*", line (\d+))?')
# "        /*1450*/              @!P0 LDGSTS.E [R13], desc[UR20][R4.64] ;"
_INSTRUCTION = re.compile(
    r"^\s*/\*(?P<offset>[0-9a-f]{4,})\*/\s+(?P<guard>@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)(?P<operands>[^;]*)"
)
# An operand of an instruction, such as "-R13.reuse".
_REGISTER = re.compile(r"^[-|~]*R(\d+)(\.reuse)?")

_SPACES = {"LDS": "shared", "STS": "shared", "LDG": "global", "STG": "global", "LDL": "local", "STL": "local",
           "LD": "generic", "ST": "generic", "LDGSTS": "shared"}  # fmt: skip
_KINDS = {"LDS": "load", "LDG": "load", "LDL": "load", "LD": "load", "STS": "store", "STG": "store", "STL": "store",
          "ST": "store", "LDGSTS": "copy"}  # fmt: skip
_BYTES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}


@dataclass(frozen=True, slots=True)
class Access:
    """Instruction that accesses memory.

    Attributes:
        kind: Kind of access: ``"load"``, ``"store"`` or ``"copy"`` (cp.async).
        space: Memory space: ``"shared"``, ``"global"``, ``"local"`` (spilled registers) or ``"generic"``; for a copy,
            the space that it writes.
        bytes: Bytes per lane.
        lines: Source line of the instruction, then, if it was inlined, the lines of the calls, innermost first.
        offset: Offset of the instruction in the function, in bytes.
    """

    kind: str
    space: str
    bytes: int
    lines: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """Instruction of a kernel's machine code.

    Attributes:
        opcode: Name without modifiers: ``"FFMA"``.
        lines: Source line of the instruction, then, if it was inlined, the lines of the calls, innermost first.
    """

    opcode: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Machine code of a kernel.

    Attributes:
        accesses: Instructions that access memory, in order, without those whose predicate is always false.
        opcodes: Number of instructions by opcode (name without modifiers).
        instructions: All instructions, by their offset in the function in bytes.
        bank_conflicts: Number of float32 multiply-adds (FFMA) whose three source registers are in the same one of the
            two register banks, which costs one more cycle. A register that the previous instruction kept (``.reuse``)
            does not count. Source: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking"
            (2018).
    """

    accesses: tuple[Access, ...]
    opcodes: dict[str, int]
    instructions: dict[int, Instruction]
    bank_conflicts: int = 0


@functools.lru_cache(maxsize=256)
def disassemble(source: str, symbol: str, target: str) -> MachineCode:
    """Compile a kernel and return its disassembled machine code.

    Args:
        source: CUDA C that compiles by itself.
        symbol: Name of the kernel.
        target: Target architecture: ``"sm_90"``.

    Raises:
        MissingDependencyError: If NVRTC or nvdisasm is not installed; the message has the command to install it.
        CompilationError: If the source does not compile.
    """
    return disassemble_cubin(compile_for(source, symbol, target, lineinfo=True).cubin)


def disassemble_cubin(cubin: bytes) -> MachineCode:
    """Return the disassembled machine code of one kernel.

    It has source lines only if it was compiled with ``-lineinfo``.

    Raises:
        MissingDependencyError: If nvdisasm is not installed; the message has the command to install it.
        CompilationError: If nvdisasm cannot read the machine code.
    """
    return parse(_listing(cubin, "-gi").splitlines())


def sass(source: str, symbol: str, target: str) -> str:
    """Compile a kernel and return its SASS, the machine code as text with one instruction per line.

    Args:
        source, symbol, target: As for ``disassemble``.

    Raises:
        TiledmmError: As for ``disassemble``.
    """
    return _listing(compile_for(source, symbol, target).cubin)


def _listing(cubin: bytes, *options: str) -> str:
    """Run nvdisasm on machine code, and return what it prints.

    Args:
        cubin: The machine code.
        *options: Options of nvdisasm besides ``-c``.

    Raises:
        MissingDependencyError: If nvdisasm is not installed; the message has the command to install it.
        CompilationError: If nvdisasm cannot read the machine code.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "kernel.cubin"
        file.write_bytes(cubin)
        # -ndf leaves out an analysis that takes a quarter of the time and changes nothing in what is printed.
        command = [str(nvdisasm()), "-c", "-ndf", *options, str(file)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CompilationError(f"nvdisasm cannot read NVRTC's machine code: {done.stderr.strip()[:1000]}")
    return done.stdout


def parse(lines: Iterable[str]) -> MachineCode:
    """Return the machine code of one kernel from the lines that ``nvdisasm -c -gi`` prints."""
    accesses: list[Access] = []
    opcodes: dict[str, int] = {}
    instructions: dict[int, Instruction] = {}
    chain: list[int] = []
    conflicts = 0
    kept: dict[int, int] = {}  # registers that the previous instruction kept, by the operand's position
    fresh = True  # whether the next line information is that of a new instruction
    for text in lines:
        if match := _LINE.match(text):
            if fresh:
                chain, fresh = [int(match[1])], False
            if match[2]:
                chain.append(int(match[2]))
            continue
        if not (match := _INSTRUCTION.match(text)):
            continue
        fresh = True
        name, *modifiers = match["opcode"].split(".")
        opcodes[name] = opcodes.get(name, 0) + 1
        offset = int(match["offset"], 16)
        instructions[offset] = Instruction(name, tuple(chain))
        registers = [_REGISTER.match(operand.strip()) for operand in match["operands"].split(",")[1:]]
        read = {int(each[1]) for place, each in enumerate(registers) if each and kept.get(place) != int(each[1])}
        conflicts += name == "FFMA" and len(read) == 3 and len({register % 2 for register in read}) == 1
        kept = {place: int(each[1]) for place, each in enumerate(registers) if each and each[2]}
        if name in _KINDS and not (match["guard"] or "").startswith("@!PT"):
            width = next((_BYTES[modifier] for modifier in modifiers if modifier in _BYTES), 4)
            accesses.append(Access(_KINDS[name], _SPACES[name], width, tuple(chain), offset))
    return MachineCode(tuple(accesses), opcodes, instructions, conflicts)


@functools.lru_cache(maxsize=1)
def nvdisasm() -> Path:
    """Return the path of the program nvdisasm.

    It is searched for in the wheel ``nvidia-cuda-nvdisasm``, then on PATH, then in the toolkit of CUDA_HOME or
    CUDA_PATH.

    Raises:
        MissingDependencyError: If it is not found; the message has the command to install it.
    """
    try:
        files = importlib.metadata.distribution("nvidia-cuda-nvdisasm").files or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    candidates = [Path(str(file.locate())) for file in files if file.stem == "nvdisasm" and file.parent.name == "bin"]
    if found := shutil.which("nvdisasm"):
        candidates.append(Path(found))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if folder := os.environ.get(variable):
            candidates += [Path(folder) / "bin" / "nvdisasm", Path(folder) / "bin" / "nvdisasm.exe"]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise MissingDependencyError(
        f"reading machine code needs nvdisasm, which is not installed; {INSTALL.format(extra='inspect')}"
    )
