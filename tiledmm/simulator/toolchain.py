"""Compiles kernels for the CPU, with the system's C++ compiler, to libraries that are cached by source and flags."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tiledmm.compile.disk_cache import MAX_BYTES, bound, in_use, mark_used
from tiledmm.errors import CompilationError, MissingDependencyError
from tiledmm.simulator import casts, inline_ptx, refusals
from tiledmm.simulator.built_libraries import cache_folder, ensure, scratch
from tiledmm.simulator.declarations import launch_bounds
from tiledmm.simulator.headers import needed

NATIVE = Path(__file__).parent / "native"

_SHOWN_LINES = 40

_NAME_A_COMPILER = "set CXX to a C++ compiler, or unset it: c++, g++ or clang++ on PATH is used"

# Flags for every kernel. Vector instructions would hide the width of its own accesses.
_KERNEL_FLAGS = (
    "-x", "c++", "-std=c++17", "-g1", "-fPIC", "-w", "-fno-exceptions", "-fno-rtti",
    "-fvisibility=hidden", "-fno-strict-aliasing", "-ffp-contract=fast", "-fno-tree-vectorize", "-fno-math-errno",
    "-fno-stack-protector", "-fno-omit-frame-pointer",
)  # fmt: skip
#: How a kernel is compiled: without calls of the runtime; with one at each access; the same with zeros instead of a
#: pattern in variables that are not set; with bytes around the variables of a thread that no access may touch.
BUILDS = ("bare", "checked", "zeroed", "guarded")

#: Where the marks of such bytes begin (``native/guards.h``).
SHADOW_OFFSET = 1 << 44

# A kernel's <math.h> is the simulator's, and so is a "cuda.h" of the unit.
_COMPILE_UNIT = ("-iquote", str(NATIVE), f"-I{NATIVE / 'include'}", "-c", "-o", "unit.o", "unit.cpp")
_RUNTIME_FLAGS = (
    "-x", "c++", "-std=c++17", "-O2", "-g1", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread",
    "-fno-omit-frame-pointer",
)  # fmt: skip

# Without -fsanitize, and with -O2 for Zig: both keep the sanitizers' own runtimes out.
_LINK_FLAGS = ("-shared", "-O2")


def compiler() -> tuple[str, ...]:
    """The command of the C++ compiler: ``$CXX``, or the first of c++, g++, clang++ and zig (the wheel ``ziglang``).

    Raises:
        MissingDependencyError: If there is none; the message says how to get one.
    """
    if sys.platform != "linux":
        raise MissingDependencyError(
            "the simulator runs on Linux, x86-64 or arm64: on macOS use a container, on Windows WSL"
        )
    if named := os.environ.get("CXX", "").strip():
        return _named_compiler(named)
    for name in ("c++", "g++", "clang++"):
        if found := shutil.which(name):
            return (found,)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "c++")
    raise MissingDependencyError(
        "the simulator compiles kernels with a C++ compiler, and there is none (c++, g++ or clang++ on PATH, or $CXX); "
        'install one, or: pip install "tiledmm[simulate]"'
    )


def _named_compiler(text: str) -> tuple[str, ...]:
    """The command that ``$CXX`` holds."""
    try:
        name, *options = shlex.split(text)
    except ValueError as error:
        raise MissingDependencyError(f"CXX={text!r} is no command ({error}); {_NAME_A_COMPILER}") from None
    if shutil.which(name):
        # It is run in other folders.
        return (os.path.abspath(name) if os.path.dirname(name) else name, *options)
    path = Path(name)
    what = "is a directory" if path.is_dir() else "is not executable" if path.exists() else "does not exist"
    raise MissingDependencyError(f"CXX names {name!r}, which {what}; {_NAME_A_COMPILER}")


def compiler_version() -> str:
    """What the compiler prints for ``--version``."""
    return _version(compiler())


@contextlib.contextmanager
def kernel_library(source: str, symbol: str, *, arch: int, build: str) -> Iterator[Path]:
    """The shared library of a kernel, compiled unless it is there. It exists in this context, at least: load it here.

    Args:
        source: CUDA C, as NVRTC gets it.
        symbol: Name of the kernel, with its template arguments: ``"scale"``, ``"scale<float, 16>"``.
        arch: Value of ``__CUDA_ARCH__``, such as 900.
        build: One of ``BUILDS``.

    Raises:
        CompilationError: If it does not compile; the message has the compiler's output.
        MissingDependencyError: If there is no compiler.
    """
    command = compiler()
    flags = _flags(command, symbol, arch, build)
    folder = cache_folder()
    with in_use(folder), runtime_library() as runtime:
        key = _key(source, *flags, runtime.name)  # the runtime's name has the compiler, the headers and this file in it
        target = folder / f"{re.sub(r'[^A-Za-z0-9_]+', '_', symbol)[:120]}-{key}.so"
        mark_used(target)
        compiled = ensure(target, lambda within: _compile_kernel(source, symbol, [*command, *flags], runtime, within))
        yield target
    if compiled:
        bound(folder, MAX_BYTES)


def _flags(command: tuple[str, ...], symbol: str, arch: int, build: str) -> list[str]:
    flags = [*_KERNEL_FLAGS, *_machine_flags(), *_warnings(command), f"-D__CUDA_ARCH__={arch}"]
    flags += ["-DTILEDMM_SIMULATOR=1", f"-DTILEDMM_KERNEL={symbol}", f"-DTILEDMM_INSTRUMENTED={int(build != 'bare')}"]
    # Optimizers split structures; accesses are to be seen where the source has them.
    return flags + (["-O2"] if build == "bare" else ["-Og", *_instrumentation(command, build)])


@dataclass(frozen=True, slots=True)
class UnsetVariable:
    """A variable that may be read before it is set, as the compiler sees it.

    Attributes:
        name: As in the source.
        lines: Where it is read: the innermost line of the kernel's text, then those of the inlined calls around it.
        declared: Where it is declared; 0 if the compiler does not say.
    """

    name: str
    lines: tuple[int, ...]
    declared: int


def unset_variables(source: str, symbol: str, *, arch: int) -> list[UnsetVariable]:
    """The variables of a kernel that may be read before they are set. Arguments are ``kernel_library``'s."""
    command = compiler()
    flags = [flag for flag in _flags(command, symbol, arch, "checked") if flag != "-w"]
    warnings = ["-Wuninitialized", *([] if _is_clang(command) else ["-Wmaybe-uninitialized"])]
    with scratch() as folder:
        _write_unit(source, symbol, folder)
        unit = [*command, *flags, *warnings, *_COMPILE_UNIT]
        done = subprocess.run(unit, capture_output=True, text=True, cwd=folder, env={**os.environ, "LC_ALL": "C"})
    found: list[UnsetVariable] = []
    chain: list[int] = []
    for line in done.stderr.splitlines():
        chain += [int(number) for number in _INLINED.findall(line)]
        if read := _MAY_BE_UNSET.search(line):
            innermost = [int(read["line"])] if read["line"] else []
            found.append(UnsetVariable(read["name"], (*innermost, *chain), 0))
            chain = []
        elif found and (declared := _DECLARED.search(line)):
            found[-1] = replace(found[-1], declared=int(declared["line"]))
    return list(dict.fromkeys(found))


def typed_library(source: str, symbol: str, *, arch: int) -> bytes:
    """A kernel's library with the types of its variables, not to be loaded. Arguments are ``kernel_library``'s."""
    command = compiler()
    flags = ["-g" if flag == "-g1" else flag for flag in _flags(command, symbol, arch, "bare")]
    with scratch() as folder:
        _write_unit(source, symbol, folder)
        _run([*command, *flags, "-O0", *_COMPILE_UNIT], folder)
        _run([*command, *_LINK_FLAGS, "-o", "unit.so", "unit.o"], folder)
        return (folder / "unit.so").read_bytes()


_INLINED = re.compile(r"inlined from .* at kernel\.cu:(\d+)")
_MAY_BE_UNSET = re.compile(
    r"(?:kernel\.cu:(?P<line>\d+):\d+: )?warning: (?:variable )?'(?P<name>[^']*)' .*uninitialized"
)
_DECLARED = re.compile(r"kernel\.cu:(?P<line>\d+):\d+: note: '[^']*' was declared here")


def build_kernel(source: str, symbol: str, *, arch: int, build: str) -> Path:
    """The same where nothing is removed from the cache meanwhile. Arguments and errors are ``kernel_library``'s."""
    with kernel_library(source, symbol, arch=arch, build=build) as path:
        return path


def _write_unit(source: str, symbol: str, folder: Path) -> None:
    """Writes the C++ of a kernel, ``unit.cpp``: its text, between the simulator's headers."""
    text = inline_ptx.translate(source)
    (folder / "kernel.cu").write_text(text, encoding="utf-8")
    asm = ["inline_ptx.h"] if text != source else []
    headers = ["cuda.h", *needed(text), *asm, "kernel.cu", "entry.h"]
    # The package's own functions (add, store) are visible to texts that say so: others may define the same names.
    own = "" if "tiledmm" in source.lower() else "#define TILEDMM_OTHER_TEXT\n"
    unit = own + "".join(f'#include "{header}"\n' for header in headers) + launch_bounds(text, symbol)
    (folder / "unit.cpp").write_text(unit, encoding="utf-8")


def _compile_unit(source: str, symbol: str, command: list[str], folder: Path) -> None:
    saturated = casts.saturate(source)
    try:
        _write_unit(saturated, symbol, folder)
        _run([*command, *_COMPILE_UNIT], folder, source)
    except CompilationError:
        if saturated == source:
            raise
        # Where a cast was none, and so that errors are about the kernel's own text.
        _write_unit(source, symbol, folder)
        _run([*command, *_COMPILE_UNIT], folder, source)


def _compile_kernel(source: str, symbol: str, command: list[str], runtime: Path, folder: Path) -> Path:
    _compile_unit(source, symbol, command, folder)
    objects = ["unit.o"]
    if dynamic := _dynamic_arrays(source, folder / "unit.o"):
        (folder / "arrays.cpp").write_text(_dynamic_memory(dynamic), encoding="utf-8")
        _run([*compiler(), *_KERNEL_FLAGS, "-c", "-o", "arrays.o", "arrays.cpp"], folder)
        objects.append("arrays.o")
    library = folder / "kernel.so"
    _run([*compiler(), *_LINK_FLAGS, "-o", library.name, *objects, str(runtime)], folder)
    return library


@contextlib.contextmanager
def runtime_library() -> Iterator[Path]:
    """The shared library that runs kernels (fibers, checks, counters), compiled unless it is there: load it here."""
    command = compiler()
    key = _key(*_RUNTIME_FLAGS, *command, _version(command), *_machine_flags(), _own_text())
    target = cache_folder() / f"runtime-{key}.so"
    with in_use(target.parent):
        mark_used(target)
        try:
            ensure(target, lambda within: _compile_runtime(command, target, within))
        except CompilationError as error:
            raise _unfit(command, str(error)) from error
        yield target


def _compile_runtime(command: tuple[str, ...], target: Path, folder: Path) -> Path:
    library = folder / "runtime.so"
    # Kernels' libraries refer to it by its path, which may have a comma in it: -Wl would cut it there.
    name = ["-Xlinker", "-soname", "-Xlinker", str(target)]
    complete = ["-Xlinker", "-z", "-Xlinker", "defs"]  # a C compiler would leave the C++ library out and say nothing
    _run([*command, *_RUNTIME_FLAGS, *name, *complete, "-o", library.name, str(NATIVE / "runtime.cpp"), "-ldl"], folder)
    return library


def _unfit(command: tuple[str, ...], output: str) -> MissingDependencyError:
    """The error for a compiler that does not compile the runtime, which is always the same text."""
    if re.search("undefined (reference|symbol)", output):
        reason = "it links no C++ library, as C compilers do not (name g++ for gcc, clang++ for clang)"
    else:
        lines = [line.strip() for line in output.splitlines()[1:] if line.strip()] or [output]
        reason = next((line for line in lines if "error" in line), lines[0])
    return MissingDependencyError(
        f"{shlex.join(command)} does not compile the simulator's runtime: {reason}. "
        "Set CXX to a compiler of C++17, such as GCC 12, Clang 14 or Zig 0.17"
    )


def build_runtime() -> Path:
    """The same where nothing is removed from the cache meanwhile."""
    with runtime_library() as path:
        return path


#: The largest shared memory of a block on any GPU: memory for dynamic shared arrays, which have the size of the launch.
MAX_DYNAMIC_SHARED = 227 * 1024

#: The variable that every dynamic shared array of a kernel is a name of.
DYNAMIC_SHARED = "tiledmm_dynamic_shared"


def _dynamic_arrays(source: str, unit: Path) -> list[str]:
    """The (mangled) names of shared arrays whose size the launch gives: ``extern __shared__ float s[]``."""
    if not re.search(r"\bextern\b[^;]*\b__shared__\b", source):
        return []
    table = ELFFile(BytesIO(unit.read_bytes())).get_section_by_name(".symtab")
    return sorted(
        symbol.name
        for symbol in (table.iter_symbols() if isinstance(table, SymbolTableSection) else ())
        if symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["type"] == "STT_TLS"
    )


def _dynamic_memory(names: Sequence[str]) -> str:
    """C++ that defines one array under all names: on a GPU they are the same memory."""
    defined = f"thread_local __attribute__((aligned(65536))) unsigned char {DYNAMIC_SHARED}[{MAX_DYNAMIC_SHARED}];\n"
    return defined + "".join(
        f'__asm__(".globl {name}\\n.hidden {name}\\n.type {name}, %tls_object\\n'
        f'.size {name}, {MAX_DYNAMIC_SHARED}\\n.set {name}, {DYNAMIC_SHARED}");\n'
        for name in names
    )


def _instrumentation(command: tuple[str, ...], build: str) -> list[str]:
    """Flags for calls of the runtime at accesses and at subscripts out of bounds, and for what unset variables hold."""
    clang = _is_clang(command)
    release = re.search(r"\) (\d+)\.", _version(command))
    fills = clang or (release is not None and int(release[1]) >= 12)
    fill = [f"-ftrivial-auto-var-init={'zero' if build == 'zeroed' else 'pattern'}"] if fills else []
    if build == "guarded":
        accesses = ["-fsanitize=kernel-address"]
        options = ["asan-stack=1", "asan-globals=0", "asan-instrumentation-with-call-threshold=0"]
        offset = "asan-mapping-offset" if clang else "asan-shadow-offset"
        if clang:
            accesses += [
                word for option in [*options, f"{offset}={SHADOW_OFFSET:#x}"] for word in ("-mllvm", f"-{option}")
            ]
        else:
            accesses += [
                *(word for option in options for word in ("--param", option)),
                f"-f{offset}={SHADOW_OFFSET:#x}",
            ]
    elif clang:
        accesses = [
            "-fsanitize=thread", "-mllvm", "-tsan-instrument-func-entry-exit=0",
            "-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-tsan-distinguish-volatile=1",
        ]  # fmt: skip
    else:
        accesses = [
            "-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0",
            "--param", "tsan-distinguish-volatile=1",
        ]  # fmt: skip
    bounds = ["-fsanitize=array-bounds,integer-divide-by-zero" if clang else "-fsanitize=bounds,integer-divide-by-zero"]
    none = ["-fno-sanitize=undefined"] if clang else []  # Zig enables all of -fsanitize=undefined
    return [*none, *accesses, *bounds, "-fno-sanitize-recover=all", *fill]


def _warnings(command: tuple[str, ...]) -> list[str]:
    # GCC accesses an extern thread_local through a function that would run its constructor; shared arrays have none.
    return [] if _is_clang(command) else ["-fno-extern-tls-init"]


@functools.lru_cache(maxsize=1)
def _machine_flags() -> tuple[str, ...]:
    """Flags for fused multiply-adds in hardware, if the CPU has them; the C library's are exact, too, and slow."""
    if platform.machine() in ("x86_64", "AMD64"):
        try:
            flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        except OSError:
            flags = None
        if flags and " fma " in flags[1] + " ":
            return ("-mfma",)
    return ()


@functools.lru_cache(maxsize=8)
def _version(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise MissingDependencyError(f"{shlex.join(command)} cannot be run ({error}); {_NAME_A_COMPILER}") from None
    if done.returncode or not done.stdout.strip():
        said = done.stderr.strip()[:500] or f"exit status {done.returncode}, no output"
        raise MissingDependencyError(f"{shlex.join(command)} --version fails ({said}); {_NAME_A_COMPILER}")
    return done.stdout


def _is_clang(command: tuple[str, ...]) -> bool:
    return "clang" in _version(command)


@functools.lru_cache(maxsize=1)
def _own_text() -> str:
    """The text of the runtime and of what writes kernels' C++: after an edit, libraries are compiled again."""
    here = Path(__file__)
    native = sorted(file for file in NATIVE.rglob("*") if file.is_file())
    modules = (
        here,
        here.with_name("casts.py"),
        here.with_name("headers.py"),
        here.with_name("inline_ptx.py"),
        *here.with_name("ptx").glob("*.py"),
    )
    return "".join(file.read_text(encoding="utf-8") for file in (*native, *sorted(modules)))


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _run(command: list[str], folder: Path, source: str = "") -> None:
    """Runs the compiler in the folder of its files, so that no other path gets into debug information.

    Args:
        command: The compiler and its arguments, of which the last four are ``-c -o <object> <unit>`` for a kernel.
        folder: The folder of its files.
        source: The kernel's text, in which errors are explained.
    """
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, "LC_ALL": "C"})
    if done.returncode == 0:
        return
    if said := inline_ptx.refusal(done.stderr):
        raise CompilationError(f"the kernel's inline PTX cannot be simulated, {said}")
    output = "\n".join(done.stderr.strip().splitlines()[:_SHOWN_LINES])
    if source:
        known = refusals.known_names(command[:-4], NATIVE, folder)
        if found := refusals.explain(done.stderr, source, known):
            raise CompilationError(f"the kernel does not compile for the CPU: {found.message(source)}")
    raise CompilationError(f"the kernel does not compile for the CPU:\n{output}")
