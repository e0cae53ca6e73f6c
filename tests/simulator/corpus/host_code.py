"""The device code of a ``.cu`` file: what is left without host functions, host headers and host variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

# Headers whose names device code uses; those of the host are left out.
_HEADERS = {"cuda_fp16.h", "cooperative_groups.h", "cuComplex.h", "cstdint", "cuda_runtime.h", "cassert", "cuda.h"}


# What only host code has: launches, functions of CUDA's libraries, and definitions of functions.
_OF_HOST = re.compile(
    r"<<<|\bstd::|\busing namespace std|\bcublas|\bcuda[A-Z]\w*\s*\(|\w\s*\([^;{}]*\)\s*(?:const\s*)?\{"
)
_OF_DEVICE = re.compile(r"__global__|__device__|__shared__|__constant__")

_SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'", re.DOTALL)
_DIRECTIVE = re.compile(r"#(?:[^\n]*\\\n)*[^\n]*")
_NAMESPACE = re.compile(r"(?:^|\s)(?:inline\s+)?namespace[\s\w:]*\{$")


def device_code(path: Path) -> str:
    """Return the text of a file without host code. Lines do not move: the headers of the corpus are host code."""
    text = re.sub(r'#include "[^"]+"', "", path.read_text("utf-8"))
    text = re.sub(r"#include\s*<([^>]+)>", lambda found: found[0] if found[1] in _HEADERS else "", text)
    return "".join(part if _is_for_devices(part) else "\n" * part.count("\n") for part in _declarations(text))


def _is_for_devices(part: str) -> bool:
    code = _without_comments(part)
    return bool(_OF_DEVICE.search(code)) or not _OF_HOST.search(code)


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def _declarations(text: str) -> Iterator[str]:
    """Yield the parts of a text: directives with their continuation lines, declarations, ends of namespaces."""
    begin = at = depth = 0
    while at < len(text):
        if skipped := _SKIPPED.match(text, at):
            at = skipped.end()
            continue
        directive = _DIRECTIVE.match(text, at)
        if depth == 0 and directive and not _without_comments(text[begin:at]).strip():
            at, ends = directive.end(), True
        else:
            depth += (text[at] in "{(") - (text[at] in "})")
            at += 1
            if depth == 1 and _NAMESPACE.search(_without_comments(text[begin:at])):
                depth, ends = 0, True
            else:
                ends = depth < 0 or (depth == 0 and _is_end(text, at))
        if ends:
            depth = max(depth, 0)
            yield text[begin:at]
            begin = at
    yield text[begin:]


def _is_end(text: str, at: int) -> bool:
    """Return whether a declaration ends before an offset: at a semicolon, or a brace that none follows."""
    return text[at - 1] == ";" or (text[at - 1] == "}" and not text[at:].lstrip(" ").startswith((";", ",", ")", "=")))
