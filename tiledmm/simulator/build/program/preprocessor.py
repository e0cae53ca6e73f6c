"""The compiler's preprocessor: conditionals, macros and the headers of a program are resolved; CUDA's headers stay."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tiledmm.errors import CompilationError
from tiledmm.hardware.architectures import Architecture
from tiledmm.simulator.build.built_libraries import scratch
from tiledmm.simulator.build.compiler_process import run_compiler
from tiledmm.simulator.build.cxx import compiler
from tiledmm.simulator.build.kernel_flags import target_macros
from tiledmm.simulator.build.source_map import Place, SourceMap

_NATIVE = Path(__file__).parent.with_name("native")

#: Headers of C++ whose classes kernels use, and that are the compiler's own.
_STANDARD = frozenset(
    ("array", "bit", "initializer_list", "limits", "optional", "ratio", "tuple", "type_traits", "utility")
)

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(?P<quoted>[<\"](?P<name>[^>\"]+)[>\"])[^\n]*$", re.MULTILINE)
_KEPT = re.compile(r"^[ \t]*#[ \t]*pragma tiledmm_include (?P<quoted>.*)$", re.MULTILINE)
# Headers that declare CUDA's 16-bit and complex types along with their own.
_LIBRARY = re.compile(r"cublas|cudnn|cusolver|cusparse|cufft|cutlass|cute/|cub/|thrust/|torch/|ATen/|c10/")
_MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"')
_DEFINE = re.compile(r"^#define (?P<name>\w+)(?P<parameters>\([^)]*\))?[ \t]*(?P<body>.*)$")
_ERROR = re.compile(r"^kernel\.cu:(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """A program after the preprocessor.

    Attributes:
        text: Its text. Only directives of CUDA's headers, and pragmas, are left.
        places: File and line of each line, with the line as it is written there.
        macros: Bodies of the program's own macros without parameters, by name.
        left_out: Headers that are not part of the text, as ``#include`` names them, each with its place.
    """

    text: str
    places: SourceMap
    macros: Mapping[str, str]
    left_out: Mapping[str, str] = field(default_factory=dict)


def preprocess(text: str, places: SourceMap, target: Architecture) -> Preprocessed:
    """Return a program after the preprocessor.

    Args:
        text: CUDA C, in which the program's own headers are inserted.
        places: File and line of each line of the text.
        target: The target architecture.

    Raises:
        CompilationError: If the preprocessor refuses the text (``#error``).
    """
    left_out: dict[str, str] = {}
    brings_types = (
        re.search(r"\b_*(?:nv_bfloat16|half)2?\b|\bcu(?:Double)?Complex\b|\bcuFloatComplex\b", text) is not None
    )

    def header(found: re.Match[str]) -> str:
        if found["name"] in known_headers():
            return f"#pragma tiledmm_include {found['quoted']}"
        line = text.count("\n", 0, found.start()) + 1
        left_out.setdefault(found["quoted"], places.location(line))
        return "#pragma tiledmm_include <library_types.h>" if brings_types and _LIBRARY.match(found["name"]) else ""

    with scratch() as folder:
        (folder / "kernel.cu").write_text(_INCLUDE.sub(header, text), encoding="utf-8")
        command = [*compiler(), "-x", "c++", "-std=c++17", "-E", "-dD", *_of_nvcc(target)]
        done = run_compiler([*command, "kernel.cu"], folder)
    if done.returncode:
        error = _ERROR.search(done.stderr)
        said = f"{places.location(int(error[1]))}: {error[2]}" if error else done.stderr.strip()
        raise CompilationError(f"the kernel does not compile for the CPU: {said}")
    lines, macros = _lines(done.stdout.splitlines())
    written = text.splitlines()
    resolved = "\n".join(_KEPT.sub(r"#include \g<quoted>", _unrolled(line, macros)) for line, _ in lines) + "\n"
    shown = tuple(written[at - 1] if 0 < at <= len(written) else "" for _, at in lines)
    return Preprocessed(resolved, SourceMap(tuple(_place(places, at) for _, at in lines), 1, shown), macros, left_out)


def _of_nvcc(target: Architecture) -> list[str]:
    """Return the options that define what nvcc and the toolkit's headers define, by which texts select branches."""
    versions = (_NATIVE / "version.h").read_text(encoding="utf-8")
    values = re.findall(r"^#define (\w+) (.*)$", versions, re.MULTILINE)
    return [
        *(f"-D{name}={value}" for name, value in values),
        "-DCUDA_VERSION=CUDART_VERSION",
        "-D__CUDACC__=1",
        "-D__NVCC__=1",
        *target_macros(target),
    ]


@functools.lru_cache(maxsize=1)
def known_headers() -> frozenset[str]:
    """Return the names of the headers that kernels may include: the simulator's, and a few of C++."""
    include = _NATIVE / "include"
    return _STANDARD | {str(file.relative_to(include)) for file in include.rglob("*") if file.is_file()}


def _lines(output: Iterable[str]) -> tuple[list[tuple[str, int]], dict[str, str]]:
    """Return the lines of the preprocessor's output, each with its line in the text, and the macros of the text.

    Lines are where they were, unless a macro became several of them.
    """
    lines: list[tuple[str, int]] = []
    macros: dict[str, str] = {}
    at, inside = 0, False
    for line in output:
        if marker := _MARKER.match(line):
            at, inside = int(marker[1]), marker[2].endswith("kernel.cu")
            lines += [("", number) for number in range(len(lines) + 1, at if inside else 0)]
        elif inside:
            define = _DEFINE.match(line)
            if define and define["parameters"] is None:
                macros[define["name"]] = define["body"].strip()
            lines.append(("" if line.startswith(("#define", "#undef")) else line, at))
            at += 1
    return lines, macros


def _unrolled(line: str, macros: Mapping[str, str]) -> str:
    """Return a line in which ``#pragma unroll`` has no macro: preprocessors leave pragmas as they are."""
    if not re.match(r"\s*#\s*pragma\s+unroll\b", line):
        return line
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda name: macros.get(name[0], name[0]), line)


def _place(places: SourceMap, line: int) -> Place | None:
    return places.places[line - 1] if 0 < line <= len(places.places) else None
