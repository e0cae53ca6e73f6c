"""Map from the lines of a rendered kernel to the template lines from which they were rendered.

A kernel is rendered once more, with a mark at the end of each line that names the template and the line in it. A mark
is a comment, which tree shaking ignores, so that it removes the same lines as without marks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

from tiledmm.codegen.rendering import fill, render
from tiledmm.codegen.tree_shaking import BEGIN, END, shake
from tiledmm.kernels.spec import KernelSpec

# A control character, which no source contains, and the template's name in hexadecimal, which is not a name of C.
_MARK = re.compile(r" //\x01([0-9a-f]*):(\d+)")
_ONLY_MARKS = re.compile(rf"^([ \t]*)(?:{_MARK.pattern})+$", re.MULTILINE)


@functools.lru_cache(maxsize=64)
def source_places(spec: KernelSpec) -> tuple[tuple[str, int] | None, ...]:
    """Return the template's name and the line number in it for each line of ``render(spec)``.

    A line has None if its place is unknown; all lines have None if the marks would change the rendered text, as when
    a template filters its own text (``{% filter %}``).
    """
    marked = shake(_ONLY_MARKS.sub(r"\1", fill(spec, _LineMarks))).splitlines()
    plain = render(spec).splitlines()
    if [_MARK.sub("", line) for line in marked] != plain:
        return (None,) * len(plain)
    return tuple(map(_place, marked))


def _place(line: str) -> tuple[str, int] | None:
    marks = _MARK.findall(line)
    if not marks:
        return None
    name, number = marks[-1]
    return bytes.fromhex(name).decode(), int(number)


class _LineMarks(Extension):
    """Jinja extension that puts a mark before each end of a line that a template itself writes."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        name = str(stream.name).encode().hex()
        begin = 0  # lines that the loader puts before a header
        for token in stream:
            if token.type != "data":
                yield token
                continue
            *lines, rest = token.value.split("\n")
            marked = []
            for number, line in enumerate(lines, token.lineno):
                begin += line == BEGIN
                marked.append(line if line in (BEGIN, END) else f"{line} //\x01{name}:{number - begin}")
            yield Token(token.lineno, token.type, "\n".join([*marked, rest]))
