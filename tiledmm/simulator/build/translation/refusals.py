"""Reasons why a kernel does not compile: what the simulator does not support, and what to use instead.

``refuse`` reads the kernel's text, before it is compiled; ``explain`` the output of GCC or Clang. Only the first error
counts: the others often follow from it. The tables are in ``refusal_tables``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tiledmm.simulator.build.compiler_process import run_compiler
from tiledmm.simulator.build.translation.blocks import largest_array, unclosed_brace
from tiledmm.simulator.build.translation.refusal_tables import INCLUDES, LIBRARY, NAMES, OF_A_PAGE, TEXTS
from tiledmm.simulator.build.translation.syntax import is_page_alone, without_comments
from tiledmm.simulator.build.translation.unit import FUNCTIONS, HEADERS

_UNKNOWN = re.compile(
    r"'(?P<a>[\w:]+)' (?:was not declared in this scope|has not been declared|does not name a type|is not a member of|"
    r"in namespace '\w+' does not name a t|is not a class, namespace|is not a template|was not declared)"
    r"|there are no arguments to '(?P<b>\w+)' that depend|use of undeclared identifier '(?P<c>\w+)'|unknown type "
    r"name '(?P<d>\w+)'"
    r"|no (?:member|template|type) named '(?P<e>\w+)' in namespace|no template named '(?P<f>\w+)'"
)
_ERROR = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$")
_IN_KERNEL = re.compile(r"\bkernel\.cu:(\d+)")
# What compilers say of a function that begins before the one above it has ended.
_LEFT_OPEN = re.compile(
    r"function[- ]definition is not allowed here|expected '\}'|a template declaration cannot appear"
)
_MISSING = re.compile(r"fatal error: '?([^\s':]+)'?(?:: No such file| file not found)")
_STANDARD = (
    ("min|max|clamp|swap", "algorithm"),
    ("numeric_limits", "limits"),
    (r"is_\w+|enable_if\w*|conditional\w*|remove_\w+|decay\w*|integral_constant|true_type|false_type", "type_traits"),
    (r"move|forward|pair|make_pair|index_sequence|integer_sequence|make_\w+_sequence|declval", "utility"),
    (r"tuple|make_tuple|get|tie", "tuple"),
    (r"array", "array"),
    (r"u?int\w*_t", "cstdint"),
    (r"size_t|ptrdiff_t|nullptr_t", "cstddef"),
    (r"printf", "cstdio"),
    (r"mem\w+", "cstring"),
    ("|".join(sorted(FUNCTIONS)) + "|abs", "cmath"),
)
_DEFINED = re.compile(
    r"(?m)^#define ([A-Za-z_]\w*)|\b([A-Za-z_]\w*)\s*\(|\b(?:struct|class|using|enum|namespace) "
    r"(?:__attribute__\(\(.*?\)\) )?([A-Za-z_]\w*)"
)
_INTERNAL = re.compile(r"(?i)tiledmm|__builtin|_*[a-z]$|__\w+__$|_[A-Z]|__(GCC|SIZEOF|cpp)")
_RAW = {
    "tiledmm_thread_index()": "threadIdx", "tiledmm_block_index()": "blockIdx", "tiledmm_block_size()": "blockDim",
    "tiledmm_grid_size()": "gridDim",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason why a kernel does not compile.

    Attributes:
        line: Line of the kernel's text; 0 if it is not known.
        reason: One sentence.
    """

    line: int
    reason: str

    def message(self, source: str) -> str:
        """Return the reason with its line and the text of the line: ``kernel.cu:3: reason``.

        If the line is unknown, return the reason alone.
        """
        if not self.line:
            return self.reason
        lines = source.splitlines()
        shown = f"\n  {lines[self.line - 1].strip()}" if self.line <= len(lines) else ""
        return f"kernel.cu:{self.line}: {self.reason}{shown}"


def explain(output: str, source: str, known: Mapping[str, str]) -> Refusal | None:
    """Return the reason for the first error in a compiler's output; None if the output has no error.

    Args:
        output: Output of GCC or Clang, in English.
        source: The kernel's text.
        known: Names that the simulator's headers define, as ``known_names`` returns them.
    """
    lines = output.splitlines()
    errors = [(at, error) for at, line in enumerate(lines) if (error := _ERROR.match(line))]
    if not errors:
        return None
    if len(errors) > 1 and errors[0][1]["text"].startswith("variable or field") and "kernel.cu" in errors[1][1]["file"]:
        errors = errors[1:]  # a function whose parameters have an unknown type, which is named next
    at, error = errors[0]
    outside = Path(error["file"]).name != "kernel.cu"
    if (outside or _LEFT_OPEN.search(error["text"])) and (line := unclosed_brace(source)):
        return Refusal(line, "this brace is not closed: a } is missing after it")
    if outside and (refused := _wrong_head(error["text"], source)):
        return refused
    place = _place(error, lines, at)
    if "frame size" in error["text"]:
        place = largest_array(source, place) or place
    return Refusal(place, _reason(error, place, source, known))


def _wrong_head(error: str, source: str) -> Refusal | None:
    """Return what is wrong with the head of a kernel that cannot be called; None if its head is right."""
    for head in re.finditer(r"__global__\b[^;{}]*", without_comments(source)):
        line = source.count("\n", 0, head.start()) + 1
        if "reference" in error and "&" in head[0]:
            return Refusal(line, "a kernel's parameters are passed by value or by pointer, not by reference")
        if not re.search(r"\bvoid\b", source[: head.start()].rpartition("\n")[2] + head[0].partition("(")[0]):
            return Refusal(line, "a __global__ function must return void: write its results to arrays")
    return None


def refuse(source: str) -> Refusal | None:
    """Return the reason why a kernel's text is refused before it is compiled; None if it is not refused.

    These are texts that C++ compilers accept, but NVRTC or the simulator does not.
    """
    plain = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', without_comments(source))
    for pattern, reason in TEXTS:
        if found := pattern.search(plain):
            return Refusal(plain.count("\n", 0, found.start()) + 1, reason)
    return None


def known_names(command: list[str], native: Path, folder: Path) -> dict[str, str]:
    """Return the names that the simulator's headers define, read from the preprocessor's output.

    Args:
        command: The compiler with its flags and folders of headers.
        native: The folder of the simulator's headers.
        folder: A folder to write to.

    Returns:
        For each name, the header that a kernel must include for it; ``""`` if it need not include one.
    """
    include = native / "include"
    asked = ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuComplex.h", "cuda_pipeline.h", "cooperative_groups.h")
    optional = [*asked, *sorted(str(file.relative_to(include)) for file in include.rglob("*.h"))]
    unit = folder / "names.cpp"
    unit.write_text(
        "".join(f'#include "{header}"\n' for header in ("cuda.h", *HEADERS))
        + "".join(f'#pragma tiledmm "{header}"\n#include <{header}>\n' for header in dict.fromkeys(optional)),
        encoding="utf-8",
    )
    done = run_compiler([*command, "-E", "-P", "-dD", str(unit)], folder)
    names: dict[str, str] = {"__launch_bounds__": ""}
    parts = re.split(r'^#pragma tiledmm "(.*)"$', "\n" + done.stdout, flags=re.MULTILINE)
    for header, text in zip(["", *parts[1::2]], parts[::2], strict=True):
        for name in _DEFINED.findall(text):
            found = next(filter(None, name))
            if not _INTERNAL.match(found):
                names.setdefault(found, header)
    return names


def _place(error: re.Match[str], lines: list[str], at: int) -> int:
    """Return the line of the kernel's source that a compiler error is about.

    For an error in a header it is the line of the kernel that uses the header's code; 0 if there is none.

    Args:
        error: The error.
        lines: All lines of the compiler's output.
        at: Index of the error's line.
    """
    if Path(error["file"]).name == "kernel.cu":
        return int(error["line"])
    if Path(error["file"]).name == "entry.h":
        return 0
    context = []  # GCC says before an error where a template is used, Clang after it
    for line in reversed(lines[:at]):
        if _ERROR.match(line):
            break
        context.append(line)
    for line in lines[at + 1 :]:
        if _ERROR.match(line):
            break
        context.append(line)
    used = [
        line for line in context if re.search(r"required from|in instantiation of|inlined from|in expansion of", line)
    ]
    found = [int(match[1]) for line in (*used, *context) for match in [_IN_KERNEL.search(line)] if match]
    return found[0] if found else 0


def _reason(error: re.Match[str], line: int, source: str, known: Mapping[str, str]) -> str:
    text = re.sub(r"; did you mean .*|\s*\[-[\w-]+(=[\w-]*)?\]$", "", error["text"])
    for raw, name in _RAW.items():
        text = text.replace(raw, name)
    code = source.splitlines()[line - 1] if 0 < line <= len(source.splitlines()) else ""
    if "<<<" in code:
        return (
            "the kernel launches another kernel: dynamic parallelism is not supported, and launches by the host are "
            "calls of simulator.launch in Python, one for each kernel"
        )
    if missing := _MISSING.search(error[0]):
        return _missing(missing[1])
    if asserted := re.match(r"static assertion failed(?: due to requirement '.*?')?: \"?(.*?)\"?$", text):
        return asserted[1]
    if asserted := re.match(r"static_assert failed (?:due to requirement '.*?' )?\"(.*)\"$", text):
        return asserted[1]
    if Path(error["file"]).name == "entry.h":
        return (
            "the kernel cannot be called by this name: write its namespace and all its template arguments, as in "
            "math::scale<float, 16>, whose types the text must define"
        )
    if frame := re.search(r"frame size (?:of |\()(\d+)", text):
        return f"the variables of a thread take {int(frame[1]):,} bytes, but its local memory has 524,288 (512 KiB)"
    if "variable length array" in text:
        return (
            "the size of an array must be a compile-time constant: a template argument, a macro or a constexpr; only "
            "dynamic shared memory has a size that the launch sets"
        )
    if _UNKNOWN.search(text):
        members = re.findall(r"\bstd::(\w+)", code)
        quoted = [name for name in members if f"'{name}'" in text]
        if quoted or (members and "'std'" in text):
            return _standard((quoted or members)[0], known)
    if re.search(r"is not a namespace-name|expected namespace name", text):
        for name in re.findall(r"\w+", code):
            if known.get(name):
                return _unknown(name, source, known)
    if unknown := _UNKNOWN.search(text):
        name = next(each for each in unknown.groups() if each).rpartition("::")[2]
        return _unknown(name, source, known)
    if call := re.match(r"no matching function for call to '(.*)'$", text):
        called = re.match(r"(?:\w+::)*(\w+)", call[1])
        if called and called[1] in known:
            return f"CUDA has no {_readable(call[1])}" + (
                f", or not on this architecture (target=): {called[1]} takes other types" if "(" in call[1] else ""
            )
    for name in re.findall(r"'(__\w+)'", text):
        if name not in known and re.search(rf"\b{name}\b", source):
            return _unknown(name, source, known)
    return _readable(text)


def _readable(text: str) -> str:
    """Return a compiler's message without the simulator's internal names."""
    text = text.replace("'__constinit'", "'__shared__'")  # what the definition of a shared array begins with
    text = re.sub(r"\btiledmm_detail::|cooperative_groups::__\w+::", "", text)
    return re.sub(r"\s*\{aka '?[^}]*\}'?", "", text)


def _missing(header: str) -> str:
    for pattern, reason in INCLUDES:
        if pattern.fullmatch(header):
            return f"#include <{header}>: {reason}"
    return f"#include <{header}>: there is no such file: put its functions into the text; {LIBRARY}"


def _standard(name: str, known: Mapping[str, str]) -> str:
    """Return the reason why ``std::name`` is unknown in a kernel, and what to do.

    Args:
        name: The name without ``std::``.
        known: Names that the simulator's headers define.
    """
    for names, header in _STANDARD:
        if re.fullmatch(names, name):
            return f"std::{name} needs #include <{header}>"
    for pattern, reason in NAMES:
        if pattern.fullmatch(name):
            return f"std::{name}: {reason}"
    return f"the simulator does not support std::{name}" + (f": use {name}" if name in known else "")


def _unknown(name: str, source: str, known: Mapping[str, str]) -> str:
    if is_page_alone(source):
        return f"{name} {OF_A_PAGE}"
    if known.get(name):
        return f"{name} needs #include <{known[name]}>"
    for pattern, reason in NAMES:
        if pattern.fullmatch(name):
            return f"{name}: {reason}"
    names = {*known, *re.findall(r"[A-Za-z_]\w*", source)} - {name}
    if near := difflib.get_close_matches(name, sorted(names), 1, 0.8):
        return f"{name} is undefined; did you mean {near[0]}?"
    return f"{name} is undefined: neither the text nor the simulator's headers declare it"
