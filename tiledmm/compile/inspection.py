"""Compilation for any target without a GPU, a driver or CuPy, and the resource use that ptxas reports.

It calls NVRTC through the package cuda-core, which is imported when it is first needed.
"""

from __future__ import annotations

import io
import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiledmm.errors import INSTALL, CompilationError, ConfigError, MissingDependencyError
from tiledmm.simulator.build.translation.syntax import short_name

# Options for NVRTC, the same for all ways to compile a kernel: with CuPy, to a cubin file, or without a GPU.

STANDARD = "c++17"

#: Options that the package passes to ``cupy.RawKernel``.
COMPILE_OPTIONS = (f"-std={STANDARD}",)

#: Options that CuPy adds for every kernel, besides the architecture and its include path. The first flushes float32
#: subnormals in code without explicit rounding modes (the kernels' own multiply-adds keep them); the second makes
#: functions ``__device__`` by default.
CUPYS_OPTIONS = ("-ftz=true", "--device-as-default-execution-space")

# cuda-core renames its modules during its import: a second thread that imports it at the same time does not find them.
_importing = threading.Lock()

_CONTEXT_LINES = 2
_SHOWN_ERRORS = 10

# "kernel.cu(3): error: ..." and, where a diagnostic can be silenced, "kernel.cu(3): warning #177-D: ...".
_DIAGNOSTIC = re.compile(r"^.*?\((?P<line>\d+)\): (?P<text>(?P<kind>(?:catastrophic )?error|warning)\b.*)$")
# "ptxas error   : ...", "ptxas application ptx input, line 26; error   : ...", "nvrtc: error: ..."
_TOOL_ERROR = re.compile(r"^(?:ptxas|nvrtc)\b.*\b(?:error|fatal)\s*:")
_TOOL_WARNING = re.compile(r"^(?:ptxas|nvrtc)\b.*\bwarning\s*:")

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)
_ENTRY = re.compile(r"Compiling entry function '(?P<symbol>[^']+)'")
_REGISTERS = re.compile(r"\bUsed (\d+) registers")
_SHARED = re.compile(r"\b(\d+) bytes smem")
_CONSTANT = re.compile(r"\b(\d+) bytes cmem\[\d+\]")
_FRAME = re.compile(r"\b(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_STACK = re.compile(r"\b(\d+) bytes cumulative stack size")


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources that a compiled kernel needs on one target.

    Attributes:
        target: Target architecture: ``"sm_90"``.
        registers: 32-bit registers per thread.
        shared_bytes: Static shared memory per block, in bytes.
        spill_store_bytes, spill_load_bytes: Spill stores and spill loads per thread in bytes, including those of called
            functions.
        stack_bytes: Local memory per thread, in bytes.
        constant_bytes: Constant memory in bytes, including the kernel's parameters; None if ptxas does not report it
            (since CUDA 12.9, for compute capability 9.0 and newer).
        cubin: Machine code.
        log: Log of NVRTC and ptxas.
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
        """Warnings of the compiler, one string each, such as ``"line 3: warning #177-D: variable ..."``."""
        found = []
        for text in self.log.splitlines():
            if (match := _DIAGNOSTIC.match(text)) and match["kind"] == "warning":
                found.append(f"line {match['line']}: {match['text']}")
            elif _TOOL_WARNING.match(text):
                found.append(text)
        return tuple(found)


def compile_for(source: str, symbol: str, target: str, *, std: str = STANDARD, lineinfo: bool = False) -> Resources:
    """Compile CUDA C to machine code for a target with CuPy's options, and return the resources that the kernel needs.

    Args:
        source: CUDA C that compiles by itself. CUDA's headers that it includes are found where a package has them.
        symbol: Name of a kernel in it, with namespaces and template arguments if it is not ``extern "C"``.
        target: Target architecture: ``"sm_90"``, or ``"sm_90a"`` for architecture-specific instructions.
        std: Language standard.
        lineinfo: Whether to record the source line of each instruction. This does not change the instructions.

    Raises:
        CompilationError: If the source does not compile (the message shows the lines) or has no such kernel.
        ConfigError: If the installed NVRTC does not support the target or the standard.
        MissingDependencyError: If cuda-core or NVRTC is not installed; the message has the command to install it.

    Example:
        >>> source = 'extern "C" __global__ void fill(int* p) { *p = 1; }'
        >>> compile_for(source, "fill", "sm_90").spill_store_bytes
        0
    """
    _, cubin, log = _compile(source, symbol, target, std, lineinfo=lineinfo)
    return Resources(target, **_read_report(log, symbol), cubin=cubin, log=log)


def ptx_of(source: str, symbol: str, target: str, *, std: str = STANDARD) -> str:
    """Compile CUDA C, and return the PTX from which ptxas made the machine code.

    Args:
        source, symbol, target, std: As for ``compile_for``.

    Raises:
        TiledmmError: As for ``compile_for``.
    """
    program, _, _ = _compile(source, symbol, target, std)
    from cuda.bindings import nvrtc

    # NVRTC keeps the PTX beside the machine code. cuda-core could compile to PTX, but only with a driver.
    _, size = nvrtc.nvrtcGetPTXSize(program.handle)
    ptx = bytes(size)
    nvrtc.nvrtcGetPTX(program.handle, ptx)
    return _clean(ptx.decode())


def _compile(
    source: str,
    symbol: str,
    target: str,
    std: str,
    *,
    lineinfo: bool = False,
) -> tuple[Any, bytes, str]:
    """Compile CUDA C, and return NVRTC's program, the machine code, and the log of NVRTC and ptxas.

    Arguments and errors are those of ``compile_for``.
    """
    program, options, not_found = _cuda_core()
    names = (symbol,) if "<" in symbol else ()
    log = io.StringIO()
    try:
        settings = options(
            name=f"{short_name(symbol)}.cu",
            arch=target,
            std=std,
            ftz="-ftz=true" in CUPYS_OPTIONS,
            device_as_default_execution_space="--device-as-default-execution-space" in CUPYS_OPTIONS,
            lineinfo=lineinfo,
            include_path=_header_folders() if _INCLUDE.search(source) else None,
            ptxas_options="-v",
            no_cache=True,  # for a cubin from its own cache, NVRTC returns no report of ptxas
        )
        compiler = program(source, "c++", settings)
        cubin = compiler.compile("cubin", name_expressions=names, logs=log).code
    except not_found as error:
        raise MissingDependencyError(f"NVRTC is not installed; {INSTALL.format(extra='inspect')}") from error
    except Exception as error:
        # cuda-core's error class is private; its message has the name of NVRTC's result.
        if "NVRTC_ERROR_COMPILATION" in str(error):
            raise CompilationError(format_compile_error(source, str(error))) from None
        if "NVRTC_ERROR_INVALID_OPTION" in str(error):
            reason = _clean(str(error)).partition("compilation log:")[2].strip()
            raise ConfigError(f"NVRTC does not support target {target!r} with std={std!r}: {reason}") from None
        raise
    return compiler, bytes(cubin), _clean(log.getvalue())


def format_compile_error(source: str, log: str) -> str:
    """Return the errors in a compiler's log as text, each with its source lines.

    Args:
        source: The CUDA C that was compiled.
        log: NVRTC's log, from cuda-core or from ``str()`` of CuPy's ``CompileException``.

    Returns:
        The first ten errors, each with the numbered lines around it and NVRTC's caret. Warnings are left out.
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
            f"compiling without a GPU needs the package cuda-core; {INSTALL.format(extra='inspect')}"
        ) from error
    return Program, ProgramOptions, DynamicLibNotFoundError


def _header_folders() -> list[str]:
    """Return the folders of CUDA's headers, where they are installed."""
    from cuda.pathfinder import find_nvidia_header_directory

    found = find_nvidia_header_directory("cudart")
    return [*([found] if found else []), *toolkit_header_folders()]


def toolkit_header_folders() -> list[str]:
    """Return the header folders of CUDA toolkits on this machine: they have ``crt/mma.h``, which packages may lack."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    folders = [Path(home, "include") for home in homes if home]
    return [str(each) for each in dict.fromkeys(folders) if (each / "crt" / "mma.h").is_file()]


def _clean(log: str) -> str:
    """Return NVRTC's log without the zero bytes that end its parts."""
    return log.replace("\0", "")


def _source_errors(source: list[str], log: str) -> list[str]:
    """Return one text per error with a line number in NVRTC's log: the message, and the source lines around it.

    Args:
        source: Lines of the source.
        log: NVRTC's log.
    """
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
    """Return the text of one error: its line, NVRTC's message, and the source lines around it.

    Args:
        source: Lines of the source.
        number: Number of the line, from 1.
        message: NVRTC's message.
        details: The lines after the message in NVRTC's log: its copy of the source line, a caret line, then notes.
    """
    echo = details[0] if details else ""
    if not 0 < number <= len(source) or echo.strip() != source[number - 1].strip():
        # The line is in a header, or a `#line` directive renumbered it.
        return "\n".join([f"line {number}: {message}", *details])
    line = source[number - 1]
    notes = details[1:]
    marker = None
    if notes and not notes[0].strip("^~ \t"):
        # NVRTC indents its copy of the line; below, the line keeps its own indentation, including tabs.
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
    """Return the fields of ``Resources`` that ptxas reports for one kernel, by name.

    Args:
        log: Log of NVRTC and ptxas.
        symbol: Name of the kernel.

    Raises:
        CompilationError: If the log has no report on the kernel, or the report cannot be parsed.
    """
    entries = list(_ENTRY.finditer(log))
    ends = [*(entry.start() for entry in entries), len(log)][1:]
    reports = {entry["symbol"]: log[entry.end() : end] for entry, end in zip(entries, ends, strict=True)}
    if symbol not in reports:  # ptxas names it by its symbol in C++
        short = short_name(symbol)
        mangled = [each for each in reports if f"{len(short)}{short}" in each]
        if not mangled:
            defined = ", ".join(sorted(reports)) or "none"
            raise CompilationError(f"the source has no kernel {symbol!r}; its kernels: {defined}")
        symbol = mangled[0]
    report = reports[symbol]
    registers = _REGISTERS.search(report)
    frames = [tuple(map(int, frame)) for frame in _FRAME.findall(report)]
    if registers is None or not frames:
        raise CompilationError(f"cannot parse the report of ptxas on {symbol!r}:\n{report.strip()}")
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
