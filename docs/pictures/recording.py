"""Recording for README.md and the home page: a barrier of ``tiled`` is deleted; ``tiledmm check`` names the race.

The text is what the command prints. The recording loops; readers who prefer reduced motion see its end as a still.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

import tiledmm
from docs.tools import plain
from tiledmm.simulator.check.findings import Finding

#: The file that is checked, and the command.
FILE = "tiled.cu"
COMMAND = f"tiledmm check {FILE}"

_BARRIER = "__syncthreads();"

_SECONDS = 12  # length of a loop

# What appears when, in seconds.
_STRUCK, _TYPED, _PRINTED, _NAMED = 1.5, 3.0, 5.0, 6.0

_ADVANCE, _LINE = 7.8, 18  # width of a character and height of a line in px
_LEFT, _TOP = 16, 24
_GUTTER = 4  # characters of line numbers
_COLUMNS = 96

_STYLE = f"""
text {{ font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }}
text {{ fill: #d6deeb; white-space: pre }}
.page {{ fill: #0d1420 }}
.terminal {{ fill: #060a12 }}
.number {{ fill: #5f6f88 }}
.comment {{ fill: #7d8ba3 }}
.prompt {{ fill: #41cd9b }}
.gone {{ fill: #ff7b7b }}
.deleted {{ fill: #ff7b7b; text-decoration: line-through }}
.deleting {{ fill: #7a1f2b; fill-opacity: .55 }}
.reads {{ fill: #b35c00; fill-opacity: .45 }}
.writes {{ fill: #1d5fb8; fill-opacity: .5 }}
.who {{ font-weight: 700; fill: #ffb44a }}
.who.wrote {{ fill: #7db8ff }}
.before {{ opacity: 0 }}
@media (prefers-reduced-motion: no-preference) {{
  .struck, .printed, .named, .before, .typed {{ animation: {_SECONDS}s infinite step-end }}
"""


def picture() -> str:
    """Return the recording as an SVG."""
    text = plain.text("tiled")
    lines = text.splitlines()
    deleted = max(number for number, line in enumerate(lines) if _BARRIER in line)
    finding, printed = _check("\n".join(lines[:deleted] + lines[deleted + 1 :]) + "\n")
    height = _LINE * (len(lines) + len(printed) + 3) + 6
    drawn = [*_code(lines, deleted, finding), *_terminal(printed, _LINE * (len(lines) + 1))]
    width = 2 * _LEFT + _COLUMNS * _ADVANCE
    title = f"Deleting a barrier of tiled, and {COMMAND}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}"',
            'role="img" aria-labelledby="title description">',
            f'<title id="title">{title}</title>',
            f'<desc id="description">{escape(finding.message)}</desc>',
            f"<style>{_STYLE}{_keyframes()}}}\n</style>",
            f'<rect class="page" width="{width:.0f}" height="{height}" rx="8"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def _check(text: str) -> tuple[Finding, list[str]]:
    """Check a file; return its first finding, and the lines that the command prints about it and its verdict.

    Raises:
        ValueError: If the first finding is no race of two threads.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, FILE)
        file.write_text(text, encoding="utf-8")
        report = tiledmm.check(file)
    finding = report.kernels[0].trials[0].report.findings[0]
    if finding.other_line is None:
        raise ValueError(f"the first finding is no race: {finding.message}")
    paragraphs = str(report).split("\n\n")
    first = next(each for each in paragraphs if each.startswith("finding"))
    return finding, [*first.splitlines(), "...", paragraphs[-1].splitlines()[-1]]


def _code(lines: list[str], deleted: int, finding: Finding) -> list[str]:
    """Draw the file with its line numbers, the deleted line struck through, and the lines that race marked."""
    drawn = []
    marks = {
        finding.line: ("reads", "who", f"thread {finding.thread[:2]} reads"),
        finding.other_line: ("writes", "who wrote", f"thread {(finding.other_thread or ())[:2]} wrote"),
    }
    number = 0
    for row, line in enumerate(lines):
        y = _TOP + row * _LINE
        code, comment, words = line.partition("//")
        shown = escape(code) + (f'<tspan class="comment">{escape(comment + words)}</tspan>' if comment else "")
        if row == deleted:
            drawn += [
                _bar("deleting struck", y),
                _text(str(row + 1).rjust(2), 0, y, "number before"),
                _text("-".rjust(2), 0, y, "gone struck"),
                _text(shown, _GUTTER, y, "before"),
                _text(escape(line.lstrip()), _GUTTER + len(line) - len(line.lstrip()), y, "deleted struck"),
            ]
            continue
        number += 1
        if number in marks:
            look, who, label = marks[number]
            drawn += [_bar(f"{look} named", y), _text(f"← {label}", _COLUMNS - 22, y, f"{who} named")]
        if row > deleted:
            drawn.append(_text(str(number + 1).rjust(2), 0, y, "number before"))
        drawn.append(_text(str(number).rjust(2), 0, y, "number struck" if row > deleted else "number"))
        drawn.append(_text(shown, _GUTTER, y))
    return drawn


def _terminal(printed: list[str], top: float) -> list[str]:
    """Draw the command as it is typed, and what it prints."""
    height = _LINE * (len(printed) + 2) + 6
    drawn = [
        f'<rect class="terminal" y="{top}" width="{2 * _LEFT + _COLUMNS * _ADVANCE:.0f}" height="{height}" rx="8"/>',
        _text('<tspan class="prompt">$</tspan>', 0, top + _TOP),
    ]
    drawn += [_text(letter, 2 + i, top + _TOP, f"typed typed-{i}") for i, letter in enumerate(COMMAND) if letter != " "]
    drawn += [_text(escape(line), 0, top + _TOP + (i + 1) * _LINE, "printed") for i, line in enumerate(printed)]
    return drawn


def _keyframes() -> str:
    """Return the animations: each element appears at its time, and those of before disappear with the deletion."""
    rules = [
        _appear(".struck", _STRUCK),
        _appear(".printed", _PRINTED),
        _appear(".named", _NAMED),
        _appear(".before", _STRUCK, 1, 0),
    ]
    rules += [
        _appear(f".typed-{i}", _TYPED + i * 1.2 / len(COMMAND)) for i, letter in enumerate(COMMAND) if letter != " "
    ]
    return "\n".join(rules) + "\n"


def _appear(selector: str, second: float, first: int = 0, then: int = 1) -> str:
    name = selector.removeprefix(".")
    percent = 100 * second / _SECONDS
    return (
        f"  {selector} {{ animation-name: {name} }} "
        f"@keyframes {name} {{ 0% {{ opacity: {first} }} {percent:.4g}%, 100% {{ opacity: {then} }} }}"
    )


def _bar(look: str, y: float) -> str:
    return f'<rect class="{look}" x="0" y="{y - 13}" width="{2 * _LEFT + _COLUMNS * _ADVANCE:.0f}" height="{_LINE}"/>'


def _text(words: str, column: float, y: float, look: str = "") -> str:
    of_class = f' class="{look}"' if look else ""
    return f'<text{of_class} x="{_LEFT + column * _ADVANCE:.5g}" y="{y:.5g}">{words}</text>'
