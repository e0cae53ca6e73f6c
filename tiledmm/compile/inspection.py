"""Compiles a kernel for any target without a GPU or a driver, and reads what ptxas reports about it.

Uses NVRTC through the package cuda-core, imported when it is first needed. CuPy takes no part.
"""

from __future__ import annotations

import io
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from tiledmm.compile.options import CUPYS_OPTIONS, STANDARD
from tiledmm.errors import INSTALL, CompilationError, ConfigError, MissingDependencyError

# cuda-core renames its modules while it is imported: another thread that imports it meanwhile does not find them.
_importing = threading.Lock()

_CONTEXT_LINES = 2
_SHOWN_ERRORS = 10

# "kernel.cu(3): error: ..." and, where a diagnostic can be silenced, "kernel.cu(3): warning #177-D: ...".
_DIAGNOSTIC = re.compile(r"^.*?\((?P<line>\d+)\): (?P<text>(?P<kind>(?:catastrophic )?error|warning)\b.*)$")
# "ptxas error   : ...", "ptxas application ptx input, line 26; error   : ...", "nvrtc: error: ..."
_TOOL_ERROR = re.compile(r"^(?:ptxas|nvrtc)\b.*\b(?:error|fatal)\s*:")
_TOOL_WARNING = re.compile(r"^(?:ptxas|nvrtc)\b.*\bwarning\s*:")

_ENTRY = re.compile(r"Compiling entry function '(?P<symbol>[^']+)'")
_REGISTERS = re.compile(r"\bUsed (\d+) registers")
_SHARED = re.compile(r"\b(\d+) bytes smem")
_CONSTANT = re.compile(r"\b(\d+) bytes cmem\[\d+\]")
_FRAME = re.compile(r"\b(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_STACK = re.compile(r"\b(\d+) bytes cumulative stack size")


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel costs on one target.

    Attributes:
        target: The target compiled for: ``"sm_90"``.
        registers: 32-bit registers of a thread.
        shared_bytes: Static shared memory of a block.
        spill_store_bytes, spill_load_bytes: Bytes of registers a thread parks in local memory, and fetches
            back; with those of functions it calls.
        stack_bytes: Local memory of a thread.
        constant_bytes: Constant memory, the kernel's parameters included; None where ptxas does not report
            it (for compute capability 9.0 and newer it does not since CUDA 12.9).
        cubin: The machine code.
        log: What NVRTC and ptxas said.
    """

    target: str
    registers: int
    shared_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    constant_bytes: int | None
    cubin: bytes = field(repr=False)
    log: str = field(repr=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The compiler's warnings, one line each: ``"line 3: warning #177-D: variable ..."``."""
        found = []
        for text in self.log.splitlines():
            if (match := _DIAGNOSTIC.match(text)) and match["kind"] == "warning":
                found.append(f"line {match['line']}: {match['text']}")
            elif _TOOL_WARNING.match(text):
                found.append(text)
        return tuple(found)


def compile_for(source: str, symbol: str, target: str, *, std: str = STANDARD, lineinfo: bool = False) -> Resources:
    """Compiles CUDA C to machine code for a target, as CuPy does for a GPU that is there.

    With the options that CuPy adds to every RawKernel (``tiledmm.compile.options``).

    Args:
        source: CUDA C, complete in itself.
        symbol: Name of an ``extern "C"`` kernel in it.
        target: What to compile for: ``"sm_90"``, or ``"sm_90a"`` for its architecture-specific instructions.
        std: Language standard.
        lineinfo: Whether the machine code tells which source line each instruction comes from. Changes none of them.

    Example:
        >>> source = 'extern "C" __global__ void fill(int* p) { *p = 1; }'
        >>> compile_for(source, "fill", "sm_90").spill_store_bytes
        0

    Raises:
        CompilationError: If the source does not compile (the message shows its lines) or has no such kernel.
        ConfigError: If the installed NVRTC does not know the target or the standard.
        MissingDependencyError: If cuda-core or NVRTC is not installed; the message has the command to
            install it.
    """
    _, cubin, log = _compile(source, symbol, target, std, lineinfo=lineinfo)
    return Resources(target, **_read_report(log, symbol), cubin=cubin, log=log)


def ptx_of(source: str, symbol: str, target: str, *, std: str = STANDARD) -> str:
    """The PTX of CUDA C, as ptxas gets it. Arguments and errors are those of ``compile_for``."""
    program, _, _ = _compile(source, symbol, target, std)
    from cuda.bindings import nvrtc

    # NVRTC has it beside the machine code; cuda-core compiles PTX only where there is a driver.
    _, size = nvrtc.nvrtcGetPTXSize(program.handle)
    ptx = bytes(size)
    nvrtc.nvrtcGetPTX(program.handle, ptx)
    return _clean(ptx.decode())


def _compile(source: str, symbol: str, target: str, std: str, *, lineinfo: bool = False) -> tuple[Any, bytes, str]:
    """NVRTC's program, the machine code that it makes, and what it and ptxas say."""
    program, options, not_found = _cuda_core()
    log = io.StringIO()
    try:
        settings = options(
            name=f"{symbol}.cu",
            arch=target,
            std=std,
            ftz="-ftz=true" in CUPYS_OPTIONS,
            device_as_default_execution_space="--device-as-default-execution-space" in CUPYS_OPTIONS,
            lineinfo=lineinfo,
            ptxas_options="-v",
            no_cache=True,  # a cubin out of NVRTC's own cache comes without ptxas' report
        )
        compiler = program(source, "c++", settings)
        cubin = compiler.compile("cubin", logs=log).code
    except not_found as error:
        raise MissingDependencyError(f"NVRTC is not installed; get it {INSTALL.format(extra='inspect')}") from error
    except Exception as error:
        # cuda-core's error class is private to it; its text names NVRTC's result.
        if "NVRTC_ERROR_COMPILATION" in str(error):
            raise CompilationError(format_compile_error(source, str(error))) from None
        if "NVRTC_ERROR_INVALID_OPTION" in str(error):
            reason = _clean(str(error)).partition("compilation log:")[2].strip()
            raise ConfigError(f"NVRTC takes no target {target!r} with std {std!r}: {reason}") from None
        raise
    return compiler, bytes(cubin), _clean(log.getvalue())


def format_compile_error(source: str, log: str) -> str:
    """Joins a compiler's log with the source lines it speaks of.

    Args:
        source: The CUDA C that was compiled.
        log: NVRTC's log, as cuda-core or ``str()`` of CuPy's ``CompileException`` gives it.

    Returns:
        Every error (the first ten) with the lines around it, numbered, and a caret where NVRTC set one.
        Warnings are left out.
    """
    text = _clean(log)
    errors = _source_errors(source.splitlines(), text)
    errors += [line for line in text.splitlines() if _TOOL_ERROR.match(line)]
    if not errors:
        return f"the kernel does not compile:\n{text.strip()}"
    count = f"{len(errors)} error{'s' if len(errors) > 1 else ''}"
    more = [f"and {len(errors) - _SHOWN_ERRORS} more"] if len(errors) > _SHOWN_ERRORS else []
    return "\n\n".join([f"the kernel does not compile, {count}:", *errors[:_SHOWN_ERRORS], *more])


def _cuda_core() -> tuple[Any, Any, type[Exception]]:
    try:
        with _importing:
            from cuda.core import Program, ProgramOptions
            from cuda.pathfinder import DynamicLibNotFoundError
    except ImportError as error:
        raise MissingDependencyError(
            f"compiling without a GPU needs the package cuda-core; get it {INSTALL.format(extra='inspect')}"
        ) from error
    return Program, ProgramOptions, DynamicLibNotFoundError


def _clean(log: str) -> str:
    """NVRTC ends each of the logs it joins with a zero byte."""
    return log.replace("\0", "")


def _source_errors(source: list[str], log: str) -> list[str]:
    """Each error that names a line: NVRTC's message, then the lines around that one."""
    blocks: list[tuple[re.Match[str], list[str]]] = []
    details: list[str] | None = None
    for line in log.splitlines():
        if match := _DIAGNOSTIC.match(line):
            details = []
            blocks.append((match, details))
        elif not line.strip():
            details = None
        elif details is not None:
            details.append(line)
    return [
        _show(source, int(match["line"]), match["text"], lines) for match, lines in blocks if match["kind"] != "warning"
    ]


def _show(source: list[str], number: int, message: str, details: list[str]) -> str:
    """One error. `details` is the rest of it: NVRTC's copy of the line, a caret line, then notes."""
    echo = details[0] if details else ""
    if not 0 < number <= len(source) or echo.strip() != source[number - 1].strip():
        # Not a line of this source: a header's, or one that a `#line` renumbered.
        return "\n".join([f"line {number}: {message}", *details])
    line = source[number - 1]
    notes = details[1:]
    marker = None
    if notes and not notes[0].strip("^~ \t"):
        # NVRTC indents its copy of the line; ours stands as it is in the source, tabs included.
        caret = notes.pop(0)
        column = _indent(caret) - _indent(echo)
        marker = line[: _indent(line)] + " " * column + caret.strip()
    first = max(1, number - _CONTEXT_LINES)
    last = min(len(source), number + _CONTEXT_LINES)
    width = len(str(last))
    shown = []
    for at in range(first, last + 1):
        shown.append(f"{'>' if at == number else ' '} {at:{width}} | {source[at - 1]}".rstrip())
        if at == number and marker:
            shown.append(f"  {'':{width}} | {marker}")
    return "\n".join([f"line {number}: {message}", *shown, *(note.strip() for note in notes)])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _read_report(log: str, symbol: str) -> dict[str, Any]:
    """ptxas' figures for one entry function: from its first line to the next entry function's."""
    entries = list(_ENTRY.finditer(log))
    ends = [*(entry.start() for entry in entries), len(log)][1:]
    reports = {entry["symbol"]: log[entry.end() : end] for entry, end in zip(entries, ends, strict=True)}
    if symbol not in reports:
        defined = ", ".join(sorted(reports)) or "none"
        raise CompilationError(f'the source has no extern "C" kernel {symbol!r}; its kernels: {defined}')
    report = reports[symbol]
    registers = _REGISTERS.search(report)
    frames = [tuple(map(int, frame)) for frame in _FRAME.findall(report)]
    if registers is None or not frames:
        raise CompilationError(f"ptxas' report on {symbol!r} is not in a known form:\n{report.strip()}")
    shared = _SHARED.search(report)
    stack = _STACK.search(report)
    constant = [int(size) for size in _CONSTANT.findall(report)]
    return {
        "registers": int(registers[1]),
        "shared_bytes": int(shared[1]) if shared else 0,
        "spill_store_bytes": sum(frame[1] for frame in frames),
        "spill_load_bytes": sum(frame[2] for frame in frames),
        "stack_bytes": int(stack[1]) if stack else frames[0][0],
        "constant_bytes": sum(constant) if constant else None,
    }
