"""Compilation of kernels for the CPU by the system's C++ compiler, to libraries that are cached by source and flags."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tiledmm.errors import CompilationError
from tiledmm.hardware.architectures import Architecture
from tiledmm.simulator.build import linkage
from tiledmm.simulator.build.built_libraries import cache_folder, cache_path, ensure, scratch
from tiledmm.simulator.build.compiler_process import run_compiler
from tiledmm.simulator.build.cxx import compiler, is_clang, machine_flags, unfit, version
from tiledmm.simulator.build.debug.symbols import UNDEFINED, sections_of, symbols_of
from tiledmm.simulator.build.kernel_flags import GCC_MEMORY, KERNEL_FLAGS, build_flags
from tiledmm.simulator.build.shared_folder import MAX_BYTES, bound, in_use, mark_used
from tiledmm.simulator.build.translation import casts, flops, inline_ptx, refusals, returns
from tiledmm.simulator.build.translation.unit import write_unit

NATIVE = Path(__file__).with_name("native")
_RUNTIME = (NATIVE / "runtime.cpp", NATIVE / "checks.cpp", NATIVE / "asynchronous.cpp")  # compiled at the same time

_SHOWN_LINES = 40
_DOES_NOT_COMPILE = "the kernel does not compile for the CPU"

# A kernel's <math.h> is the simulator's, and so is a "cuda.h" of the unit.
_INCLUDE = ("-iquote", str(NATIVE), f"-I{NATIVE / 'include'}")
_COMPILE_UNIT = (*_INCLUDE, "-c", "-o", "unit.o", "unit.cpp")
_TO_ASSEMBLY = (*_INCLUDE, "-S", "-o", "unit.s", "unit.cpp")
_ASSEMBLE = ("-c", "-o", "unit.o", "unit.s")
# -O2 takes a quarter longer, which the first result waits for, and makes simulations 3% faster.
_RUNTIME_FLAGS = (
    "-x", "c++", "-std=c++17", "-O1", "-g1", "-fPIC", "-fvisibility=hidden", "-pthread", "-fno-omit-frame-pointer",
)  # fmt: skip

# Without -fsanitize, and with -O2 for Zig: both keep the sanitizers' own runtimes out.
_LINK_FLAGS = ("-shared", "-O2")
# Kernels call no function of the C++ library, and reading it takes GCC more time than all else of a link.
_GCC_KERNEL_LIBRARIES = ("-nodefaultlibs", "-lm", "-lc", "-lgcc")


@contextlib.contextmanager
def kernel_library(source: str, symbol: str, *, target: Architecture, build: str) -> Iterator[Path]:
    """Yield the path of a kernel's shared library, which is compiled first if it is not in the cache.

    Load it within this context: afterwards it may be removed.

    Args:
        source: CUDA C, as NVRTC gets it.
        symbol: Name of the kernel, with its template arguments: ``"scale"``, ``"scale<float, 16>"``.
        target: The target architecture.
        build: One of ``kernel_flags.BUILDS``.

    Raises:
        CompilationError: If the kernel does not compile; the message contains the compiler's output.
        MissingDependencyError: If there is no compiler.
    """
    command = compiler()
    flags = build_flags(command, symbol, target, build)
    folder = cache_folder()
    with in_use(folder), runtime_library() as runtime:
        key = _key(source, *flags, runtime.name)  # the runtime's name has the compiler, the headers and this file in it
        library = folder / f"{re.sub(r'[^A-Za-z0-9_]+', '_', symbol)[:120]}-{key}.so"
        mark_used(library)
        compiled = ensure(
            library, lambda within: _compile_kernel(source, symbol, [*command, *flags], runtime, within, build)
        )
        yield library
    if compiled:
        bound(folder, MAX_BYTES)


@dataclass(frozen=True, slots=True)
class UnsetVariable:
    """A variable that may be read before it is set, according to the C++ compiler's warnings.

    Attributes:
        name: Name in the source.
        lines: Lines of the kernel's text where it is read: the innermost, then the inlined calls around it.
        declared: Line where it is declared; 0 if the compiler does not say.
    """

    name: str
    lines: tuple[int, ...]
    declared: int


def unset_variables(source: str, symbol: str, *, target: Architecture) -> list[UnsetVariable]:
    """Compile a kernel, and return the variables that, as the compiler warns, may be read before they are set.

    Args:
        source: CUDA C, as NVRTC gets it.
        symbol: Name of the kernel, with its template arguments.
        target: The target architecture.
    """
    command = compiler()
    flags = build_flags(command, symbol, target, "checked")
    warnings = ["-Wuninitialized", *([] if is_clang(command) else ["-Wmaybe-uninitialized"])]
    with scratch() as folder:
        write_unit(source, symbol, folder)
        unit = [*command, *flags, *warnings, *_COMPILE_UNIT]
        done = run_compiler(unit, folder)
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


@functools.lru_cache(maxsize=8)
def typed_library(source: str, symbol: str, *, target: Architecture) -> bytes:
    """Compile a kernel with the types of its variables in debug information, and return the library's bytes.

    The library is not to be loaded.

    Args:
        source: CUDA C, as NVRTC gets it.
        symbol: Name of the kernel, with its template arguments.
        target: The target architecture.

    Raises:
        CompilationError: If the kernel does not compile without optimization.
    """
    command = compiler()
    flags = ["-g" if flag == "-g1" else flag for flag in build_flags(command, symbol, target, "bare")]
    with scratch() as folder:
        write_unit(source, symbol, folder)
        _run([*command, *flags, "-O0", *_COMPILE_UNIT], folder)
        _run([*command, *_LINK_FLAGS, "-o", "unit.so", "unit.o"], folder)
        return (folder / "unit.so").read_bytes()


_INLINED = re.compile(r"inlined from .* at kernel\.cu:(\d+)")
_MAY_BE_UNSET = re.compile(
    r"(?:kernel\.cu:(?P<line>\d+):\d+: )?warning: (?:variable )?'(?P<name>[^']*)' .*uninitialized"
)
_DECLARED = re.compile(r"kernel\.cu:(?P<line>\d+):\d+: note: '[^']*' was declared here")


def build_kernel(source: str, symbol: str, *, target: Architecture, build: str) -> Path:
    """Return the path of a kernel's shared library, which is compiled first if it is not in the cache.

    This is ``kernel_library`` for callers that know that nothing is removed from the cache meanwhile.
    """
    with kernel_library(source, symbol, target=target, build=build) as path:
        return path


def _compile_unit(source: str, symbol: str, command: list[str], folder: Path, build: str) -> None:
    marks = (flops.CLANG_FLAG if is_clang(compiler()) else flops.FLAG,) if build == "checked" else ()
    to_compile = [*command, *marks, *_TO_ASSEMBLY]
    saturated = casts.saturate(source)
    try:
        write_unit(saturated, symbol, folder)
        _run_unit(to_compile, folder, source)
    except CompilationError:
        if saturated == source:
            raise
        # Where a cast was none, and so that errors are about the kernel's own text.
        write_unit(source, symbol, folder)
        _run_unit(to_compile, folder, source)
    unit = folder / "unit.s"
    assembly = unit.read_text(encoding="utf-8")
    if found := linkage.refuse_assembly(assembly):
        raise CompilationError(f"{_DOES_NOT_COMPILE}: {found.message(source)}")
    counted = flops.count_operations(assembly, "kernel.cu") if marks else assembly
    unit.write_text(linkage.with_names(counted), encoding="utf-8")
    _run([*compiler(), *_ASSEMBLE], folder)


def _compile_kernel(source: str, symbol: str, command: list[str], runtime: Path, folder: Path, build: str) -> Path:
    if found := refusals.refuse(source):
        raise CompilationError(f"{_DOES_NOT_COMPILE}: {found.message(source)}")
    _compile_unit(source, symbol, command, folder, build)
    has_dynamic = re.search(r"\bextern\b[^;{]*\b__shared__\b", source) is not None
    begins = "-fsanitize=thread" in command
    if found := linkage.refuse_object(folder / "unit.o", source, dynamic=has_dynamic, begins=begins):
        raise CompilationError(f"{_DOES_NOT_COMPILE}: {found.message(source)}")
    objects = ["unit.o"]
    if has_dynamic and (dynamic := _dynamic_arrays(folder / "unit.o")):
        (folder / "arrays.cpp").write_text(_dynamic_memory(dynamic), encoding="utf-8")
        _run([*compiler(), *KERNEL_FLAGS, "-c", "-o", "arrays.o", "arrays.cpp"], folder)
        objects.append("arrays.o")
    library = folder / "kernel.so"
    libraries = () if is_clang(compiler()) else _GCC_KERNEL_LIBRARIES
    _run([*compiler(), *_LINK_FLAGS, "-o", library.name, *objects, str(runtime), *libraries], folder)
    return library


@contextlib.contextmanager
def runtime_library() -> Iterator[Path]:
    """Yield the path of the library that runs kernels, which is compiled first if it is not in the cache.

    The library contains fibers, checks and counters. Load it within this context: afterwards it may be removed.

    Raises:
        MissingDependencyError: If there is no compiler, or if it does not compile the library.
    """
    command = compiler()
    target = cache_folder() / runtime_path().name
    with in_use(target.parent):
        mark_used(target)
        try:
            ensure(target, lambda within: _compile_runtime(command, target, within))
        except CompilationError as error:
            raise unfit(command, str(error)) from error
        yield target


def runtime_path() -> Path:
    """Return the path of ``runtime_library``, which need not exist."""
    command = compiler()
    return cache_path() / _runtime_name((*_RUNTIME_FLAGS, *command), version(command))


@functools.lru_cache(maxsize=8)
def _runtime_name(flags: tuple[str, ...], compiled_by: str) -> str:
    return f"runtime-{_key(*flags, compiled_by, *machine_flags(), _own_text())}.so"


def _compile_runtime(command: tuple[str, ...], target: Path, folder: Path) -> Path:
    flags = [*command, *_RUNTIME_FLAGS, *(() if is_clang(command) else GCC_MEMORY)]
    objects = [f"{unit.stem}.o" for unit in _RUNTIME]
    commands = [[*flags, "-c", "-o", name, str(unit)] for name, unit in zip(objects, _RUNTIME, strict=True)]
    with ThreadPoolExecutor(len(commands)) as pool:
        list(pool.map(lambda each: _run(each, folder), commands))
    library = folder / "runtime.so"
    # Kernels' libraries refer to it by its path, which may have a comma in it: -Wl would cut it there.
    soname = ["-Xlinker", "-soname", "-Xlinker", str(target)]
    complete = ["-Xlinker", "-z", "-Xlinker", "defs"]  # a C compiler would leave the C++ library out and say nothing
    _run([*command, *_LINK_FLAGS, "-pthread", *soname, *complete, "-o", library.name, *objects, "-ldl"], folder)
    return library


def build_runtime() -> Path:
    """Return the path of the library that runs kernels, which is compiled first if it is not in the cache.

    This is ``runtime_library`` for callers that know that nothing is removed from the cache meanwhile.
    """
    with runtime_library() as path:
        return path


#: The largest shared memory of a block on any GPU: memory for dynamic shared arrays, which have the size of the launch.
MAX_DYNAMIC_SHARED = 227 * 1024

#: The variable that every dynamic shared array of a kernel is a name of.
DYNAMIC_SHARED = "tiledmm_dynamic_shared"


def _dynamic_arrays(unit: Path) -> list[str]:
    """Return the mangled names of shared arrays whose size the launch gives: ``extern __shared__ float s[]``.

    Args:
        unit: The compiled object file.
    """
    symbols = symbols_of(sections_of(unit.read_bytes()))
    return sorted(each.name for each in symbols if each.section == UNDEFINED and each.is_thread_local)


def _dynamic_memory(names: Sequence[str]) -> str:
    """Return C++ that defines one array under all the given names, because on a GPU they are the same memory."""
    defined = f"thread_local __attribute__((aligned(65536))) unsigned char {DYNAMIC_SHARED}[{MAX_DYNAMIC_SHARED}];\n"
    return defined + "".join(
        f'__asm__(".globl {name}\\n.hidden {name}\\n.type {name}, %tls_object\\n'
        f'.size {name}, {MAX_DYNAMIC_SHARED}\\n.set {name}, {DYNAMIC_SHARED}");\n'
        for name in names
    )


def _own_text() -> str:
    """Return the source of the runtime, and of the modules that write kernels' C++, in one string.

    It is part of the libraries' names in the cache, so that they are compiled again after an edit.
    """
    native = (file for file in NATIVE.rglob("*") if file.is_file())
    translation = NATIVE.with_name("translation").rglob("*.py")
    files = sorted((*native, *translation, *Path(__file__).parent.glob("*.py")))
    return "".join(file.read_text(encoding="utf-8") for file in files)


def _key(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


def _run_unit(command: list[str], folder: Path, source: str) -> None:
    """Compile a kernel, whose functions return a value where their text has no statement that does."""
    named = [*command[:-4], returns.NAMED, *command[-4:]]
    done = run_compiler(named, folder)
    if done.returncode:
        returns.complete(folder / "kernel.cu", done.stderr)
        _run(command, folder, source)


def _run(command: list[str], folder: Path, source: str = "") -> None:
    """Run the compiler in the folder of its files, so that no other path gets into debug information.

    Args:
        command: The compiler and its arguments, of which the last four are ``-c -o <object> <unit>`` for a kernel.
        folder: The folder of its files.
        source: The kernel's text, by which errors are explained; empty for other files.

    Raises:
        CompilationError: If the compiler fails.
    """
    done = run_compiler(command, folder)
    if done.returncode == 0:
        return
    if said := inline_ptx.refusal(done.stderr):
        raise CompilationError(f"the kernel's inline PTX is not supported: {said}")
    output = "\n".join(done.stderr.strip().splitlines()[:_SHOWN_LINES])
    if source:
        known = refusals.known_names(command[:-4], NATIVE, folder)
        if found := refusals.explain(done.stderr, source, known):
            raise CompilationError(f"{_DOES_NOT_COMPILE}: {found.message(source)}")
    raise CompilationError(f"{_DOES_NOT_COMPILE}:\n{output}")
